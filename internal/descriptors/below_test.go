package descriptors

import (
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// A rule that applies below also applies beside a limit that a request sends for a longer
// descriptor.
func TestPassed(t *testing.T) {
	for rules, want := range map[string]map[string]string{
		"{key: user, rate_limit: {unit: day, requests_per_unit: 1}}":               {"user=a": "api|user", "x=y": "api|(no key)"},
		"{key: user, override: {}, rate_limit: {unit: day, requests_per_unit: 1}}": {"user=a": "api|user", "user=a path=/": "", "x=y": "api|(no key)"},
		"{key: user, below: true, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [{key: path}]}": {
			"user=a": "api|user", "user=a path=/": "api|user|path past api|user", "user=a x=y": "api|user past api|user",
			"user=a path=/ x=y": "api|user past api|user", "x=y": "api|(no key)",
		},
	} {
		tree := load(t, "domain: api\ndescriptors: ["+rules+", {rate_limit: {unit: day, requests_per_unit: 2}}]\n")
		for descriptor, want := range want {
			got, way, work := "", entries(strings.Fields(descriptor)...), MaxWork
			if r, _, _ := tree.Match("api", way, &work); r != nil {
				got = r.String()
				if passed := r.Passed(len(way)); passed != nil {
					got += " past " + passed.String()
				}
			}
			testenv.Equal(t, got, want, "%s under %s", descriptor, rules)
		}
	}
}

// The burst of an override is scaled with its amount.
func TestBurstOfOverride(t *testing.T) {
	for _, test := range []struct{ amount, burst, sent, want uint64 }{
		{100, 10, 10_000, 1000}, {100, 29, 100, 29}, {100, 10, 9, 1}, {1, 1, 4_294_967_295, 4_294_967_295}, {100, 0, 5, 0},
		{1, 1 << 40, 1 << 40, limiter.MaxAmount}, {3, 2, 2, 1}, {100, 10, 0, 1}, {100, 300, 10, 30}, {0, 5, 10, 5},
	} {
		testenv.Equal(t, proportional(test.burst, test.sent, test.amount), test.want, "%+v", test)
	}
}
