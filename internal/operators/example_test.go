package operators_test

import (
	"fmt"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators"
)

func ExampleRecorder() {
	limit, err := limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: 5, Unit: limiter.Minute,
		Series: limiter.LabelSet{Domain: "api", Key1: "user", Rule: "user", Limit: "minute"}.Series(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	recorder := operators.NewRecorder(now)
	for _, user := range []string{"alice", "bob", "alice"} {
		recorder.Record(now, &operators.Denial{Limit: limit, RetryAfter: time.Second, Asked: operators.Asked{
			Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: user}}, Key: []byte(user), // of the counter
		}})
	}
	for _, l := range recorder.Denials(now).Minute.Limits {
		fmt.Println(l.Domain, l.Rule, l.Rate, "denied", l.Denied)
		for _, k := range l.Keys {
			text, _ := k.Descriptor.Spell()
			fmt.Println(text, k.Denied)
		}
	}
	// Output:
	// api user 5 per minute denied 3
	// user=alice 2
	// user=bob 1
}
