package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// The second request exceeds some limits. Each limit must have the right outcome.
func TestOutcomes(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit:
      - {unit: minute, requests_per_unit: 1}
      - {unit: hour, requests_per_unit: 100}
  - key: trial
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: q1
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: q2
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 100}
  - key: free
    rate_limit: {unlimited: true}
`
	for _, tt := range []struct {
		name   string
		shadow bool // SHADOW_MODE
		keys   string
		want   string // outcomes of the second request
	}{
		{"denied", false, "user", "user minute denied, user hour withheld"},
		{"beside others", false, "free user q2 nobody", "free withheld, user minute denied, user hour withheld, q2 minute withheld, nobody withheld"},
		{"limit in shadow mode", false, "trial", "trial minute shadow"},
		{"SHADOW_MODE", true, "user trial", "user minute shadow, user hour admitted, trial minute shadow"},
		{"one quota is over", false, "q1 q2", "q1 minute admitted, q2 minute admitted"},
		{"one quota is over, SHADOW_MODE", true, "q1 q2", "q1 minute admitted, q2 minute admitted"},
		{"all quotas are over", false, "q1", "q1 minute denied"},
		{"no limit", false, "free nobody", "free admitted, nobody admitted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			planner, tree, store := New(Options{ShadowMode: tt.shadow}), load(t, rules), counters{}
			r := Request{Domain: "api"}
			for key := range strings.FieldsSeq(tt.keys) {
				r.Descriptors = append(r.Descriptors, named(key+"=x"))
			}
			var got []string
			for range 2 {
				got = nil
				var res Result
				decide(t, planner, tree, store, &r, &res)
				for o := range res.Outcomes(&r) {
					words := []string{o.Descriptor.Entries[0].Key}
					if o.Hit != nil {
						words = append(words, o.Hit.Limit.Series.Labels().Limit)
					}
					got = append(got, fmt.Sprint(strings.Join(words, " "), " ", o.Kind))
				}
			}
			testenv.Equal(t, strings.Join(got, ", "), tt.want, "outcomes")
		})
	}
}

// groupRules has quotas for each backend and model together, and quotas for users alone.
const groupRules = `
domain: api
descriptors:
  - key: backend
    descriptors:
      - key: model
        quota_mode: true
        rate_limit: {unit: day, requests_per_unit: 1}
        descriptors:
          - {key: user, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
          - {key: all, quota_mode: true, rate_limit: [{unit: hour, requests_per_unit: 1}, {unit: day, requests_per_unit: 9}]}
          - {key: trial, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1, shadow_mode: true}}
          - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
          - {key: hard, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: user, quota_mode: true, rate_limit: [{unit: minute, requests_per_unit: 1}, {unit: day, requests_per_unit: 9}]}
`

var groupKeys = []string{"backend", "model"}

// Each case first uses up limits with one request for each descriptor, and then decides another request.
func TestQuotaGroups(t *testing.T) {
	tree := load(t, groupRules)
	for _, test := range []struct {
		used, asked string
		denied      bool
		retry       time.Duration
		available   string
	}{
		{"a=1", "backend=a model=m all=x, backend=b model=m all=x", false, 0, "a/m b/m"},
		{"backend=a model=m user=u", "backend=a model=m user=u", true, time.Minute, ""},
		{"backend=a model=m user=u", "backend=a model=m user=u, backend=a model=m all=x", true, time.Minute, ""},
		{"backend=a model=m user=u", "backend=b model=m all=x, backend=a model=m user=u", false, 0, "b/m"},
		{"backend=a model=m user=u", "backend=a model=m user=u, backend=a model=n all=x", false, 0, "a/n"},
		{"backend=a model=m user=u, backend=a model=m all=x, backend=b model=m", "backend=a model=m user=u, backend=b model=m, backend=a model=m all=x", true, time.Hour, ""},
		{"backend=a model=m user=u, backend=b model=m trial=x", "backend=a model=m user=u, backend=b model=m trial=x", false, 0, "b/m"},
		{"backend=a model=m user=u, backend=b model=m trial=x", "backend=b model=m user=u, backend=b model=m trial=x", false, 0, "b/m"},
		{"backend=a model=m user=u", "backend=a model=m user=u, backend=b model=m shadow=x", true, time.Minute, ""},
		{"backend=a model=m user=u, backend=b model=m hard=x", "backend=a model=m user=u, backend=b model=m hard=x, backend=c model=m trial=x", true, 24 * time.Hour, "c/m"},
		{"backend=a model=m user=u, user=u", "backend=a model=m user=u, user=u", false, 0, ""}, // each limit of user=u is a group of its own
		{"user=u", "user=u", false, 0, "none"},
	} {
		r := Request{Domain: "api", Descriptors: each(test.asked)}
		for _, opts := range []Options{{GroupKeys: groupKeys}, {GroupKeys: groupKeys, ShadowMode: true}} {
			var res Result
			store, planner := counters{}, New(opts)
			for _, d := range each(test.used) {
				decide(t, planner, tree, store, &Request{Domain: "api", Descriptors: []Descriptor{d}}, &res)
			}
			decide(t, planner, tree, store, &r, &res)
			testenv.Equal(t, res.Denied || res.WouldBeDenied, test.denied, "%s after %s: denied", test.asked, test.used)
			names, grouped := res.Available(&opts)
			var available []string
			for _, name := range names {
				available = append(available, name[0].Value+"/"+name[1].Value)
			}
			if got := strings.Join(available, " "); !opts.ShadowMode && (got != strings.TrimPrefix(test.available, "none") || grouped == (test.available == "none") || res.Denied && res.RetryAfter() != test.retry) {
				t.Errorf("%s after %s: %s have room (%v), admitted after %v; want %s, %v", test.asked, test.used, got, grouped, res.RetryAfter(), test.available, test.retry)
			}
		}
	}
}
