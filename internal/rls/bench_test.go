package rls

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// hotRequest returns an encoded request with n descriptors of one entry and the given number of
// different values.
func hotRequest(t testing.TB, n, users int) []byte {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "user=user-%d ", i%users)
	}
	return request(t, text.String())
}

const hotRulesOfSeveral = `
domain: api
descriptors:
  - key: user
    rate_limit:
      - {unit: hour, requests_per_unit: 4000000000}
      - {unit: minute, unit_multiplier: 5, requests_per_unit: 4000000, algorithm: sliding_window}
      - {unit: second, requests_per_unit: 4000000, algorithm: token_bucket}
`

const hotRules = "{domain: api, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 4000000000}}]}"

const hotRulesOfValues = "{domain: api, descriptors: [{key: user, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 4000000000}}]}"

// Requests reuse the memory of earlier requests. The test keeps the call itself, because under
// the race detector a pool drops some calls.
func TestHotPathAllocations(t *testing.T) {
	for _, tc := range []struct {
		descriptors int
		rules       string
	}{
		{1, hotRules}, {3, hotRules}, {10, hotRules}, {1, hotRulesOfSeveral}, {5, hotRulesOfSeveral}, {3, hotRulesOfValues},
		{1, strings.Replace(hotRules, "user", "other", 1)}, {1, strings.Replace(hotRules, "api", "other", 1)},
	} {
		o := options(t, tc.rules)
		o.MaxConcurrent = 100
		s := o.service()
		wire := hotRequest(t, tc.descriptors, tc.descriptors)
		c := s.calls.Get().(*call)
		allocs := testing.AllocsPerRun(1000, func() {
			c.reset()
			c.wire = wire
			testenv.OK(t, s.decide(context.Background(), c))
		})
		if allocs > 0 {
			t.Errorf("%d descriptors of %s: %v allocations, want none", tc.descriptors, tc.rules, allocs)
		}
	}
}

// BenchmarkShouldRateLimit measures a decision by gRPC on the loopback device.
func BenchmarkShouldRateLimit(b *testing.B) {
	for _, n := range []int{1, 3, 10} {
		b.Run(fmt.Sprint("descriptors=", n), func(b *testing.B) {
			conn := serve(b, options(b, hotRules).service())
			wire := hotRequest(b, n, n)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := askRaw(b, conn, wire); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// A request with as many descriptors as settings can allow takes time in proportion to their
// number, whether it is admitted or denied.
func TestManyDescriptorsInTime(t *testing.T) {
	for _, rules := range []string{hotRules, "{domain: api, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 0}}]}"} {
		for _, users := range []int{1, 10_000} {
			o := options(t, rules)
			o.MaxDescriptors = 10_000
			s := o.service()
			wire := hotRequest(t, o.MaxDescriptors, users)
			testenv.InProcessorTime(t, 200*time.Millisecond, func() { testenv.OK(t, decideOne(t.Context(), s, wire)) })
		}
	}
}
