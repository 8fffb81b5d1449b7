package plan

import (
	"slices"
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
    detailed_metric: true
    rate_limit:
      - {name: minute, unit: minute, requests_per_unit: 3}
      - {name: day, unit: day, requests_per_unit: 90}
    descriptors:
      - {key: path, value: /login, rate_limit: {name: login, unit: hour, requests_per_unit: 2}}
      - {key: path, value: /free, rate_limit: {unlimited: true}}
      - {key: path, value: /export, rate_limit: {name: export, unit: minute, requests_per_unit: 9, replaces: [{name: minute}]}}
      - {key: path, value: /health}
      - key: path
        value: /files/*
        share_threshold: true
        below: true
        shadow_mode: true
        rate_limit: {name: files, unit: hour, requests_per_unit: 1, charge: always}
        descriptors: [{key: method, rate_limit: {name: method, unit: hour, requests_per_unit: 5}}]
  - {rate_limit: {name: rest, unit: second, requests_per_unit: 1}}
`

// The limits of all levels become hits, the nearest first, each on the counter that
// its rule has alone.
func TestHitsBelow(t *testing.T) {
	tree := load(t, belowRules)
	user := []string{"minute w1|api|user=alice|1m user_alice;", "day w1|api|user=alice|1d user_alice;"}
	for _, test := range []struct {
		descriptors string // separated by commas
		want        []string
	}{
		{"user=alice", user},
		{"user=alice path=/login", append([]string{"login w1|api|user=alice|path=/login|1h"}, user...)},
		{"user=alice path=/cart", user},
		{"user=alice path=/health", user},
		{"user=alice path=/free", user},
		{"user=alice path=/export", []string{"export w1|api|user=alice|path=/export|1m", user[1]}},
		{"user=alice path=/files/a method=GET", append([]string{
			"method w1|api|user=alice|path~/files/*|method=GET|1h", "files w1|api|user=alice|path~/files/*|1h",
		}, user...)},
		{"nobody=x y=z", []string{"rest w1|api|nobody=x|y=z|1s"}},
		// Each descriptor that passes through a rule hits its counters.
		{"user=alice,user=alice path=/cart", append(slices.Clone(user), user...)},
		// A name that one descriptor replaces is replaced in all, above, too.
		{"user=alice path=/export,user=bob path=/cart", []string{
			"export w1|api|user=alice|path=/export|1m", user[1], "day w1|api|user=bob|1d user_bob;",
		}},
	} {
		var list []Descriptor
		for _, text := range strings.Split(test.descriptors, ",") {
			list = append(list, words(text))
		}
		p := planned(t, Options{}, tree, list...)
		if got := hitsOf(p); !slices.Equal(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.descriptors, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
		if p.Unmatched > 0 {
			t.Errorf("%s: %d unmatched", test.descriptors, p.Unmatched)
		}
	}
}

// A rule without key that shares has one counter, which no descriptor has.
func TestSharedRuleWithoutKey(t *testing.T) {
	tree := load(t, "domain: api\ndescriptors: [{key: \"*\", value: \"*\", share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}, "+
		"{share_threshold: true, rate_limit: [{unit: second, requests_per_unit: 1}, {unit: day, requests_per_unit: 1}]}]\n")
	keys := testenv.Must(limiter.Keys{}.InBuckets())(t)
	got := hitsOf(planned(t, Options{Keys: keys}, tree, words("a=1"), words("b=1 c=2"), words("d="), words("*=x")))
	for i := 2; i < 6; i++ {
		if got[i] != got[i%2] {
			t.Errorf("hit %d is on %s, want %s", i, got[i], got[i%2])
		}
	}
	if len(got) != 7 || slices.Contains(got[:6], got[6]) || !strings.Contains(got[0], "{") {
		t.Errorf("got %q, want a counter of its own, with a tag, for each limit of both rules", got)
	}
}

// The status is about the tightest limit of all levels; a trial comes last. What the
// answer carries comes from the rule that the descriptor ends at.
func TestStatusBelow(t *testing.T) {
	tree := load(t, belowRules)
	for _, test := range []struct {
		descriptor string
		units      uint32
		denied     bool
		want       string
	}{
		{"user=alice path=/login", 1, false, "login false 1 api|user|path=/login"},
		{"user=alice path=/login", 3, true, "login true 0 api|user|path=/login"},
		{"user=alice path=/cart", 1, false, "minute false 2 api|user"},
		{"user=alice path=/cart", 4, true, "minute true 0 api|user"},
		{"user=alice path=/free", 4, true, "minute true 0 api|user|path=/free"},
		{"user=alice path=/export", 4, false, "export false 5 api|user|path=/export"},
		{"user=alice path=/files/a", 3, false, "minute false 0 api|user|path=/files/*"},
		{"x=y", 1, false, "rest false 0 api|(no key)"},
		{"x=y", 2, true, "rest true 0 api|(no key)"},
	} {
		var p Result
		r := &Request{Domain: "api", HitsAddend: test.units, Descriptors: []Descriptor{words(test.descriptor)}}
		testenv.OK(t, New(Options{}).Prepare(&p, tree, r))
		decide(&p, map[string]*limiter.State{})
		if got := statusOf(p.Statuses[0]); got != test.want || p.Denied != test.denied {
			t.Errorf("%d of %s: got %s, denied %t, want %s, %t", test.units, test.descriptor, got, p.Denied, test.want, test.denied)
		}
	}
}
