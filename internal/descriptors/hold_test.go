package descriptors

import (
	"strings"
	"testing"

	"weir/internal/limiter"
)

const flightRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}
    descriptors:
      - {key: path, value: /slow*, rate_limits: [{unit: hour, requests_per_unit: 1, algorithm: concurrency, hold: call}]}
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: free}
  - {key: only, descriptors: [{key: below}]}
`

// The entry that names a hold may be anywhere in a descriptor, and leads nowhere.
func TestMatchHold(t *testing.T) {
	tree := load(t, flightRules)
	for _, test := range []struct {
		descriptor []limiter.Entry
		want       string // the rule, "" if none applies
		hold       int
	}{
		{entries("user=bob", "request_id=1"), "api|user", 1},
		{entries("request_id=1", "user=bob"), "api|user", 0},
		{entries("request_id", "user=bob"), "api|user", 0}, // whose name is for package plan to refuse
		{entries("user=bob"), "api|user", -1},              // likewise
		{entries("user=bob", "call=1"), "", -1},
		{entries("user=bob", "request_id=1", "request_id=2"), "", -1},
		{entries("user=bob", "request_id=1", "call=1"), "", -1},
		{entries("user=bob", "call=1", "path=/slow/x"), "api|user|path=/slow*", 1},
		{entries("user=bob", "path=/slow/x", "request_id=1"), "", -1},
		{entries("user=bob", "path=/x"), "api|user|path", -1},
		{entries("user=bob", "path=/x", "request_id=1"), "", -1},
		{entries("free=1", "request_id=1"), "", -1},
		{entries("only=1", "request_id=1"), "", -1},
		{entries("request_id=1"), "", -1},
	} {
		rule, hold := tree.MatchHold("api", test.descriptor)
		got := ""
		if rule != nil {
			got = rule.String()
		}
		if got != test.want || hold != test.hold {
			t.Errorf("%v: got rule %q and hold %d, want %q and %d", test.descriptor, got, hold, test.want, test.hold)
		}
	}
	descriptor := entries("user=bob", "request_id=1")
	if n := testing.AllocsPerRun(100, func() { tree.MatchHold("api", descriptor) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Another domain may have levels with a key that names holds in this one.
func TestHoldsAreOfTheirDomain(t *testing.T) {
	files := []File{
		{Name: "a.yaml", Data: []byte(flightRules)},
		{Name: "b.yaml", Data: []byte("domain: web\ndescriptors:\n  - {key: request_id, rate_limit: {unit: minute, requests_per_unit: 3}}\n")},
	}
	tree, err := Load(files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rule, hold := tree.MatchHold("web", entries("request_id=1")); rule == nil || hold >= 0 {
		t.Errorf("got %v and hold %d, want the rule without a hold", rule, hold)
	}
}

func TestDumpOfHolds(t *testing.T) {
	var b strings.Builder
	if err := load(t, flightRules).Dump(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"user: unit=MINUTE requests_per_unit=3, shadow_mode: false, quota_mode: false, algorithm: concurrency, from:",
		"unit=HOUR requests_per_unit=1, shadow_mode: false, quota_mode: false, algorithm: concurrency, hold: call, from:",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant a line with %s", b.String(), want)
		}
	}
}

// A limit in flight may hold below its rule, and for what no rule is for.
func TestMatchHoldBelow(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 3, algorithm: concurrency}
    descriptors:
      - {key: path, value: /login, rate_limit: {unit: hour, requests_per_unit: 20}}
  - {key: tenant, below: true, rate_limit: {unit: hour, requests_per_unit: 20}}
otherwise: {rate_limit: {unit: minute, requests_per_unit: 9, algorithm: concurrency, hold: call}}
`)
	for _, test := range []struct {
		descriptor []limiter.Entry
		want       string
		hold       int
	}{
		{entries("user=bob", "request_id=1", "path=/login"), "api|user|path=/login", 1},
		{entries("user=bob", "path=/x", "request_id=1"), "api|user", 2},
		{entries("request_id=1", "user=bob", "x=y"), "api|user", 0},
		{entries("user=bob", "path=/login"), "api|user|path=/login", -1}, // for package plan to refuse
		{entries("tenant=a", "request_id=1"), "api|tenant", -1},
		{entries("tenant=a", "call=1", "x=y"), "api|tenant", -1},
		{entries("x=y", "call=1"), "api|otherwise", 1},
		{entries("call=1", "x=y"), "api|otherwise", 0},
		{entries("x=y", "request_id=1"), "api|otherwise", -1},
	} {
		rule, hold := tree.MatchHold("api", test.descriptor)
		if rule == nil || rule.String() != test.want || hold != test.hold {
			t.Errorf("%v: got rule %v and hold %d, want %s and %d", test.descriptor, rule, hold, test.want, test.hold)
		}
	}
}
