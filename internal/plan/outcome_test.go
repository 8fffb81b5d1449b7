package plan

import (
	"fmt"
	"strings"
	"testing"
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
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
