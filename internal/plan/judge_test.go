package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

const judgedRules = `
domain: api
descriptors:
  - key: tenant
    override: {max_requests_per_unit: 10000}
    rate_limit: {unit: minute, requests_per_unit: 100, algorithm: token_bucket, burst: 10}
  - key: trial
    shadow_mode: true
    detailed_metric: true
    override: {}
    rate_limit: {unit: minute, requests_per_unit: 100, algorithm: first_hit, charge: always, failure_mode: deny}
  - key: quota
    quota_mode: true
    override: {max_requests_per_unit: 50}
    rate_limit: {algorithm: sliding_window, unit: day, unit_multiplier: 7, requests_per_unit: 9}
  - key: shared
    value: x*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: user
    below: true
    override: {max_requests_per_unit: 5}
    rate_limit: {unit: day, requests_per_unit: 3}
    descriptors: [{key: path, value: /login, rate_limit: {unit: hour, requests_per_unit: 20}}]
  - {rate_limit: {unit: second, requests_per_unit: 1}}
`

// describe formats a limit with its burst and its modes.
func describe(l *limiter.Limit) string {
	text := l.Rate() + " " + l.Algorithm.String()
	if l.Burst > 0 {
		text += fmt.Sprint(" burst ", l.Burst)
	}
	if l.Mode != limiter.Enforced || l.Charge != limiter.ByDefault || l.FailureMode != limiter.FailureByDefault {
		text += fmt.Sprintf(" mode %d charge %d failure %s", l.Mode, l.Charge, l.FailureMode)
	}
	return text
}

// A rule with override determines how an override is counted and the maximum that it admits, in
// any unit.
func TestJudgedOverrides(t *testing.T) {
	tree := load(t, judgedRules)
	const second, minute, hour, day, year = limiter.Second, limiter.Minute, limiter.Hour, limiter.Day, limiter.Year
	for _, test := range []struct {
		descriptor string
		amount     uint32
		unit       limiter.Unit
		multiplier uint32
		want       []string
	}{
		{"tenant=a", 5000, minute, 0, []string{"5000 per minute token_bucket burst 500"}},
		{"tenant=a", 5, minute, 0, []string{"5 per minute token_bucket burst 1"}},
		{"tenant=a", 0, minute, 0, []string{"0 per minute token_bucket burst 1"}},
		{"tenant=a", 10_000, second, 60, []string{"10000 per 60 seconds token_bucket burst 1000"}},
		{"tenant=a", 10_001, minute, 0, []string{"10000 per minute token_bucket burst 1000"}},
		// In another period, the maximum also applies.
		{"tenant=a", 10_000, second, 0, []string{"10000 per second token_bucket burst 1000", "10000 per minute token_bucket burst 1000"}},
		{"tenant=a", 1_000_000, day, 0, []string{"1000000 per day token_bucket burst 100000", "10000 per minute token_bucket burst 1000"}},
		{"tenant=a", 4_294_967_295, year, 100, []string{"10000 per minute token_bucket burst 1000"}}, // the override cannot be counted exactly

		{"trial=a", 4_294_967_295, second, 0, []string{"4294967295 per second first_hit mode 1 charge 3 failure deny"}},
		{"quota=a", 60, day, 7, []string{"50 per 7 days sliding_window mode 2 charge 0 failure default"}},

		// An override replaces a rule without override completely.
		{"shared=xy", 60, day, 0, []string{"60 per day fixed_window"}},
		{"nobody=a", 60, day, 0, []string{"60 per day fixed_window"}},
		// Limits of rules above apply as usual.
		{"user=a", 60, day, 0, []string{"5 per day fixed_window"}},
		{"user=a path=/login", 60, day, 0, []string{"60 per day fixed_window", "3 per day fixed_window"}},
		{"user=a path=/cart", 60, day, 0, []string{"5 per day fixed_window", "3 per day fixed_window"}},
	} {
		var res Result
		d := words(test.descriptor).with(Override{test.amount, test.unit, test.multiplier})
		decide(t, New(Options{}), tree, counters{}, &Request{Domain: "api", Descriptors: []Descriptor{d}}, &res)
		p := &res.Plan
		var got []string
		for _, h := range p.Hits {
			got = append(got, describe(h.Limit))
		}
		if !slices.Equal(got, test.want) || p.Unmatched > 0 {
			t.Errorf("%s with %d per %d %s: got %q with %d unmatched, want %q", test.descriptor, test.amount, test.multiplier, test.unit, got, p.Unmatched, test.want)
		}
		unjudged := slices.Contains([]string{"nobody=a", "shared=xy", "user=a path=/login"}, test.descriptor)
		testenv.Equal(t, res.Statuses[0].Rule == nil, unjudged, "%s: the answer has no rule", test.descriptor)
		key, _, _ := strings.Cut(test.descriptor, "=")
		if labels := p.Hits[0].Limit.Series.Labels(); labels.Limit != "override" || labels.Rule != key && !unjudged || labels.Rule != "override" && unjudged {
			t.Errorf("%s: metrics have the labels %+v", test.descriptor, labels)
		}
	}
}

// Rules that judge differently make different limits, and all are remembered.
func TestJudgedOverridesAreRemembered(t *testing.T) {
	planner, p := New(Options{}), new(Plan)
	r := &Request{Domain: "api", Descriptors: []Descriptor{named("tenant=a").with(Override{RequestsPerUnit: 5, Unit: limiter.Day})}}
	for _, most := range []string{"10000", "20000"} {
		tree := load(t, strings.Replace(judgedRules, "10000", most, 1))
		for range 2 {
			testenv.OK(t, planner.Prepare(p, tree, r))
		}
		if got := fmt.Sprint(p.Hits[1].Limit.RequestsPerUnit); got != most || len(planner.overrides.known) > 2 {
			t.Errorf("at most %s are admitted and %d limits remembered, want %s and 2", got, len(planner.overrides.known), most)
		}
	}
}
