package rls

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/plan"
	"weir/internal/testenv"
)

// hotRequest has one entry for each of n descriptors, all under a limit.
func hotRequest(n int) []byte {
	m := message{}.string(1, "api")
	for i := range n {
		m = m.bytes(2, message{}.bytes(1, message{}.string(1, "user").string(2, fmt.Sprint("user-", i))))
	}
	return m
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

// Only the reply is made anew for each request, everything else is used again.
// The call is kept here, because under the race detector a pool forgets some.
func TestHotPathAllocations(t *testing.T) {
	for _, tc := range []struct {
		descriptors   int
		rules         string
		maxConcurrent int
	}{
		{1, hotRules, 0}, {3, hotRules, 0}, {10, hotRules, 0}, {1, hotRulesOfSeveral, 0}, {5, hotRulesOfSeveral, 0}, {3, hotRulesOfValues, 0},
		{1, hotRules, 100},
	} {
		o := options(t, tc.rules)
		o.MaxConcurrent = tc.maxConcurrent
		s := o.service()
		wire := hotRequest(tc.descriptors)
		c := s.calls.Get().(*call)
		allocs := testing.AllocsPerRun(1000, func() {
			c.reset()
			c.wire = wire
			testenv.Must(s.shouldRateLimit(context.Background(), c))(t)
		})
		if allocs > 3 { // bytes, slice header and holder of the reply
			t.Errorf("%d descriptors of %s, %d requests at a time: %v allocations, want at most 3", tc.descriptors, tc.rules, tc.maxConcurrent, allocs)
		}
	}
}

// One decision through gRPC on the loopback device.
func BenchmarkShouldRateLimit(b *testing.B) {
	for _, n := range []int{1, 3, 10} {
		b.Run(fmt.Sprint("descriptors=", n), func(b *testing.B) {
			conn := serve(b, options(b, hotRules).service())
			wire := hotRequest(n)
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

// A request of as many descriptors as can be allowed is answered in time in
// proportion to them, admitted or denied.
func TestManyDescriptorsInTime(t *testing.T) {
	for _, rules := range []string{hotRules, "{domain: api, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 0}}]}"} {
		for _, users := range []int{1, 10_000} {
			o := options(t, rules)
			o.MaxDescriptors = 10_000
			s := o.service()
			m := message{}.string(1, "api")
			for i := range o.MaxDescriptors {
				m = m.bytes(2, message{}.bytes(1, message{}.string(1, "user").string(2, fmt.Sprint("user-", i%users))))
			}
			testenv.InProcessorTime(t, 200*time.Millisecond, func() {
				testenv.OK(t, decideOne(s, m))
			})
		}
	}
}

// What an enormous request made a call allocate is not kept, whatever it has many of.
func TestEnormousCallsAreNotKept(t *testing.T) {
	const several = "{domain: api, descriptors: [{key: user, rate_limit: [{unit: hour, requests_per_unit: 1}, {unit: day, requests_per_unit: 9}]}]}"
	for _, tc := range []struct {
		name        string
		rules       string
		descriptors int
		descriptor  message
		enormous    bool
	}{
		{"usual", several, 10, message{}.bytes(1, message{}.string(1, "user").string(2, "a")), false},
		{"many descriptors without entries", several, 5000, message{}, true},
		{"many entries", several, 50, fullOf("path"), true},
		{"many hits", several, 3000, message{}.bytes(1, message{}.string(1, "user").string(2, "a")), true},
		{"long values", several, 1700, message{}.bytes(1, message{}.string(1, "user").string(2, strings.Repeat("a", 64))), true},
		{"a long value, of which a digest is enough", several, 1, message{}.bytes(1, message{}.string(1, "user").string(2, strings.Repeat("a", 300<<10))), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options(t, tc.rules)
			o.MaxDescriptors = 10_000
			s := o.service()
			m := message{}.string(1, "api")
			for range tc.descriptors {
				m = m.bytes(2, tc.descriptor)
			}
			c := s.calls.Get().(*call)
			c.wire = m
			testenv.OK(t, s.decide(t.Context(), c))
			if got := c.isEnormous(); got != tc.enormous {
				t.Errorf("enormous: got %t, want %t", got, tc.enormous)
			}
		})
	}
}

// fullOf is a descriptor of as many entries as are permitted.
func fullOf(key string) (m message) {
	for range plan.MaxEntries {
		m = m.bytes(1, message{}.string(1, key))
	}
	return m
}
