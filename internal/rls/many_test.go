package rls

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/plan"
	"weir/internal/testenv"
)

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
