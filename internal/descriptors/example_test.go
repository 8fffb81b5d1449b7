package descriptors_test

import (
	"fmt"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

func ExampleLoad() {
	tree, err := descriptors.Load([]descriptors.File{{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 100}
  - {key: user, value: health*}
`)}}, descriptors.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, user := range []string{"alice", "health-check"} {
		work := descriptors.MaxWork
		rule, _, _ := tree.Match("api", []limiter.Entry{{Key: "user", Value: user}}, &work)
		fmt.Println(user, "leads to", rule, "at", rule.Location())
		for _, limit := range rule.Limits {
			fmt.Println(limit.Rate())
		}
	}
	// Output:
	// alice leads to api|user at api.yaml:4:5
	// 100 per minute
	// health-check leads to api|user=health* at api.yaml:6:5
}

// Load reports all problems at once, each with its location.
func ExampleLoad_problems() {
	_, err := descriptors.Load([]descriptors.File{{Name: "api.yaml", Data: []byte(`domain: api
descriptors:
  - key: user
    rate_limit: {unit: minuet, request_per_unit: 100}
`)}}, descriptors.Options{})
	fmt.Println(err)
	// Output:
	// api.yaml:4:17: descriptors[0].rate_limit.requests_per_unit: requests_per_unit must be a whole number from 0 to 1125899906842624 (or set unlimited: true)
	// api.yaml:4:24: descriptors[0].rate_limit.unit: unknown unit "minuet" (did you mean minute?); use one of second, minute, hour, day, week, month, year
	// api.yaml:4:32: descriptors[0].rate_limit: unknown field "request_per_unit" (did you mean requests_per_unit?); use one of unit, unit_multiplier, requests_per_unit, unlimited, name, replaces, algorithm, time_zone, burst, hold, settle, charge, deny_for, failure_mode, notify, shadow_mode
}
