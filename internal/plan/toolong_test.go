package plan

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/testenv"
)

const patternRules = `
domain: api
descriptors:
  - {key: path, regex: '.*a(.?){480}[yz]'}
  - {key: path, rate_limit: {name: path, unit: day, requests_per_unit: 1}}
  - {key: user, rate_limit: {name: user, unit: day, requests_per_unit: 9}}
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 9, algorithm: concurrency}, descriptors: [{key: path, value: /a*b*c}]}
  - key: trial
    descriptors:
      - {key: path, value: exact, rate_limit: {unit: day, requests_per_unit: 1}}
      - {key: path, regex: '.*a(.?){480}[yz]', shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
      - {key: path, descriptors: [{key: user, rate_limit: {unlimited: true}}, {key: tenant, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}]}
  - key: below
    below: true
    rate_limit: {unit: day, requests_per_unit: 1}
    descriptors: [{key: path, regex: '.*a(.?){480}[yz]', shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}]
  - key: keyless
    descriptors:
      - {key: path, regex: '.*a(.?){480}[yz]', shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
      - {rate_limit: {unit: day, requests_per_unit: 1}}
  - key: deep
    descriptors:
      - {key: path, regex: '.*a(.?){480}[yz]', descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}
      - {key: path, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`

// A client cannot evade a limit with values that are too long for the patterns of rules, nor
// delay other clients with them.
func TestTooLongValues(t *testing.T) {
	long := "path=" + strings.Repeat("a", 60<<10)
	var exceptions atomic.Pointer[Exceptions]
	exceptions.Store(NewExceptions([]*Exception{{JSONDescriptor: NewJSONDescriptor("api", named(long).Entries), Effect: Allow}}))
	const deny, user = "deny w1|api|x1d", "user w1|api|user=a|1d"
	for _, test := range []struct {
		name   string
		opts   Options
		asked  []Descriptor
		want   []string
		denied bool
	}{
		{"others count", Options{}, []Descriptor{named("user=a"), named(long)}, []string{user, deny}, true},
		{"a hundred", Options{}, slices.Repeat([]Descriptor{named(long)}, 100), slices.Repeat([]string{deny}, 100), true},
		{"quotas", Options{QuotaMode: true}, []Descriptor{named("user=a"), named(long)}, []string{user, deny}, true},
		{"shadow mode", Options{ShadowMode: true}, []Descriptor{named(long)}, []string{deny}, false},
		{"a sent limit", Options{}, []Descriptor{named(long).with(Override{RequestsPerUnit: 5, Unit: limiter.Day})}, []string{" w1|api|path=#TD4IkFophHLEt04C5VQDCw|1d", deny}, true},
		{"rules in shadow mode", Options{}, []Descriptor{named("trial=", long)}, []string{deny}, false},
		{"rules in shadow mode as quotas", Options{QuotaMode: true}, []Descriptor{named("trial=", long)}, []string{deny}, false},
		{"an enforced rule above", Options{}, []Descriptor{named("below=", long)}, []string{deny}, true},
		{"an enforced rule without key", Options{}, []Descriptor{named("keyless=", long)}, []string{deny}, true},
		{"an enforced rule below", Options{}, []Descriptor{named("deep=", long)}, []string{deny}, true},
		{"an entry that names a hold elsewhere", Options{}, []Descriptor{named("request_id=x", long)}, []string{deny}, true},
		{"a refund", Options{}, []Descriptor{named(long).refund()}, nil, false},
		{"a value of usual length", Options{}, []Descriptor{named("path=" + long[:300])}, []string{"path w1|api|path=#PzhmvIIlQXWhxEw4BEpxMw|1d"}, false},
		{"an exception", Options{Exceptions: &exceptions}, []Descriptor{named(long)}, nil, false},
	} {
		tree := load(t, patternRules)
		testenv.InProcessorTime(t, 50*time.Millisecond, func() {
			var res Result
			decide(t, New(test.opts), tree, counters{}, &Request{Domain: "api", Descriptors: test.asked}, &res)
			if got := hitsOf(&res.Plan); !slices.Equal(got, test.want) || res.Denied != test.denied || res.Plan.Unmatched > 0 {
				t.Errorf("%s: got the hits %q, %t, %d unmatched, want %q, %t", test.name, got, res.Denied, res.Plan.Unmatched, test.want, test.denied)
			}
		})
	}
}

// Many requests with costly values do not delay others. They are denied until some time has
// passed.
func TestCostlyValuesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := load(t, patternRules)
		d := Decider{Planner: New(Options{}), Rules: func() *descriptors.Tree { return tree }, Store: counters{}, Costly: rate.NewLimiter(rate.Limit(descriptors.SharedWork), int(descriptors.MaxWork))}
		first := func(ctx context.Context, length int) string {
			var res Result
			testenv.OK(t, d.Decide(ctx, &Request{Domain: "api", Descriptors: []Descriptor{named("path=" + strings.Repeat("a", length))}}, &res))
			return hitsOf(&res.Plan)[0]
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		testenv.Equal(t, first(gone, 540), "deny w1|api|x1d", "a caller that left")
		for range 2 {
			matched := 0
			testenv.InProcessorTime(t, 300*time.Millisecond, func() {
				for range 200 {
					if strings.HasPrefix(first(t.Context(), 540), "path ") {
						matched++
					}
				}
			})
			if most := 5 * 2 * runtime.GOMAXPROCS(0); matched == 0 || matched > most {
				t.Errorf("%d of the costly values were matched, want 1 to %d", matched, most)
			}
			if got := first(t.Context(), 5); !strings.HasPrefix(got, "path ") {
				t.Errorf("a cheap value: got %s", got)
			}
			time.Sleep(time.Second)
		}
	})
}
