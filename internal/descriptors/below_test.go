package descriptors

import (
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

const belowRules = `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 100}
    descriptors:
      - {key: path, value: /login, rate_limit: {unit: hour, requests_per_unit: 20}}
      - {key: path, value: /free}
      - key: path
        value: /files/*
        share_threshold: true
        below: true
        rate_limit: {unit: hour, requests_per_unit: 9}
        descriptors:
          - {key: method, descriptors: [{key: host, rate_limit: {unit: day, requests_per_unit: 5}}]}
  - {key: user, value: batch, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: zone, descriptors: [{key: path}]}
`

// One file of a domain may have a rule without key on the first level, which is for the
// rules of all.
func TestRuleWithoutKeyOfMergedFiles(t *testing.T) {
	tree := testenv.Must(Load([]File{
		{"a.yaml", []byte("domain: api\ndescriptors: [{key: user, below: true, rate_limit: {unit: day, requests_per_unit: 1}}]\n")},
		{"b.yaml", []byte("domain: api\ndescriptors: [{rate_limit: {unit: day, requests_per_unit: 2}}]\n")},
		{"c.yaml", []byte("domain: api\ndescriptors: [{key: path, descriptors: [{key: user}]}]\n")},
	}, Options{MergeDomains: true}))(t)
	for descriptor, want := range map[string]string{
		"user=a x=y": "api|user of user=a",
		"path=/":     "none",
		"path=/ x=y": "none",
		"x=y":        "api|(no key) of x=y",
	} {
		if got := found(tree, entries(strings.Fields(descriptor)...)); got != want {
			t.Errorf("%q: got %s, want %s", descriptor, got, want)
		}
	}
	if tree.Rules() != 3 || len(tree.Warnings()) > 0 {
		t.Errorf("got %d rules and the warnings %v", tree.Rules(), tree.Warnings())
	}
}

func TestBelowDoesNotAllocate(t *testing.T) {
	tree := load(t, belowRules+"  - {share_threshold: true, rate_limit: {unit: second, requests_per_unit: 3}}\n")
	var keys []byte
	for descriptor, want := range map[string]int{"user=alice path=/files/a method=GET host=h": 3, "user=alice path=/cart": 1, "x=y": 1} {
		way, rules := entries(strings.Fields(descriptor)...), 0
		if n := testing.AllocsPerRun(100, func() {
			keys, rules = keys[:0], 0
			for r := tree.Match("api", way); r != nil; r = r.Above {
				keys = r.Limits[0].AppendKind(limiter.Keys{}.Append(keys, "api", r.Counted(way), r.Patterns))
				rules++
			}
		}); n != 0 || rules != want {
			t.Errorf("%s: %v allocations and %d rules, want none and %d", descriptor, n, rules, want)
		}
	}
}

// A limit that a request brings along is judged by the rule in whose place it comes.
func TestMatchOverride(t *testing.T) {
	for rules, want := range map[string]map[string]string{
		"{key: user, rate_limit: {unit: day, requests_per_unit: 1}}":               {"user=a": "api|user", "x=y": ""},
		"{key: user, override: {}, rate_limit: {unit: day, requests_per_unit: 1}}": {"user=a": "api|user", "user=a path=/": "", "x=y": ""},
		"{key: user, below: true, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [{key: path}]}": {
			"user=a": "api|user", "user=a path=/": "api|user|path past api|user", "user=a x=y": "api|user past api|user",
			"user=a path=/ x=y": "api|user past api|user", "x=y": "",
		},
	} {
		tree := load(t, "domain: api\ndescriptors: ["+rules+", {rate_limit: {unit: day, requests_per_unit: 2}}]\n")
		for descriptor, want := range want {
			got, way := "", entries(strings.Fields(descriptor)...)
			if r, _ := tree.MatchOverride("api", way); r != nil {
				got = r.String()
				if passed := r.Passed(len(way)); passed != nil {
					got += " past " + passed.String()
				}
			}
			if got != want {
				t.Errorf("%s under %s: got %q, want %q", descriptor, rules, got, want)
			}
		}
	}
}

// The burst of a limit that a request sends is in proportion to that of the rule.
func TestBurstOfOverride(t *testing.T) {
	for _, test := range []struct{ amount, burst, sent, want uint64 }{
		{100, 10, 10_000, 1000}, {100, 29, 100, 29}, {100, 10, 9, 1}, {1, 1, 4_294_967_295, 4_294_967_295}, {100, 0, 5, 0},
		{1, 1 << 40, 1 << 40, limiter.MaxAmount}, {3, 2, 2, 1}, {100, 10, 0, 1}, {100, 300, 10, 30}, {0, 5, 10, 5},
	} {
		if got := proportional(test.burst, test.sent, test.amount); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}
