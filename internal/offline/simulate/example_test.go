package simulate_test

import (
	"context"
	"fmt"

	"weir/internal/descriptors"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/simulate"
)

// ExampleRun replays three requests of a client against a limit of two a minute.
func ExampleRun() {
	envoy, err := envoyconfig.Load([]byte("domain: api\nrate_limits: [{actions: [{remote_address: {}}]}]\n"), "envoy.yaml", envoyconfig.Options{})
	if err != nil {
		panic(err)
	}
	rules, err := descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(
		"domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 2}}]\n")}}, descriptors.Options{})
	if err != nil {
		panic(err)
	}
	report, err := simulate.Run(context.Background(), simulate.Options{Logs: []string{"testdata/example.log"}, Envoy: envoy, Rules: rules})
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Denied, "of", report.Requests, "would be denied, of", report.Limits[0].WorstClients[0].Client)
	// Output: 1 of 3 would be denied, of remote_address=192.0.2.1
}
