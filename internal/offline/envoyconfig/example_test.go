package envoyconfig_test

import (
	"fmt"

	"weir/internal/offline/envoyconfig"
)

// ExampleLoad computes the descriptors of a request from the shortest kind of configuration, a mapping.
func ExampleLoad() {
	config, err := envoyconfig.Load([]byte("domain: api\nrate_limits: [{actions: [{remote_address: {}}]}]\n"), "envoy.yaml", envoyconfig.Options{})
	if err != nil {
		panic(err)
	}
	for _, d := range config.AppendDescriptors(nil, &envoyconfig.Request{RemoteAddress: "192.0.2.7"}) {
		fmt.Println(d.Domain, d.Entries, d.Location)
	}
	// Output: api [{remote_address 192.0.2.7}] envoy.yaml:2:15: rate_limits[0]
}
