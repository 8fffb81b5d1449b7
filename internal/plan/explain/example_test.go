package explain_test

import (
	"fmt"
	"os"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan/explain"
)

func ExampleExplain() {
	rules := "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 10}}]\n"
	tree, err := descriptors.Load([]descriptors.File{{Name: "shop.yaml", Data: []byte(rules)}}, descriptors.Options{})
	if err != nil {
		panic(err)
	}
	answer, err := explain.Explain(explain.Question{Tree: tree, Domain: "shop", Descriptor: []limiter.Entry{{Key: "user", Value: "ann"}}})
	fmt.Println(answer.WriteText(os.Stdout), err)
	// Output:
	// domain shop
	//   user=ann  matches user with any value
	// rule shop|user (shop.yaml:2:15)
	//
	// limit 1 of 1
	//   amount     10 per minute
	//   algorithm  fixed_window
	//   mode       enforced
	//   charge     auto: a denied hit counts only if its descriptor sets hits_addend above 0
	//   failure    error, so without Redis the answer is UNAVAILABLE
	//   hits       1 on a fresh counter: fits, 9 remaining, fully available again within 1m0s
	//
	// On fresh counters the request is admitted.
	// <nil> <nil>
}
