package e2e

import "testing"

// What Envoy sends as remote_address, the address alone, leads to the network with
// the longest prefix. Clients say their address, so that there can be several.
func TestNetworksOfRemoteAddress(t *testing.T) {
	t.Parallel()
	s := startGateway(t, gateway{
		virtualHost: "rate_limits: [{actions: [{remote_address: {}}]}]\nroutes: [{match: {prefix: /}, route: {cluster: echo}}]\n",
		manager:     "{use_remote_address: true, xff_num_trusted_hops: 1}",
	}, startUpstream(t), `
domain: api
descriptors:
  - {key: remote_address, networks: [10.0.0.0/8, "2001:db8::/32"], share_threshold: true, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: remote_address, networks: [10.1.0.0/16], rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: remote_address, value: [10.1.0.1]}
`)
	for _, c := range []struct {
		client, limit string
		statuses      []int
	}{
		{"10.1.0.1", "", []int{200, 200, 200}},               // the list
		{"10.1.2.3", "1, 1;w=86400", []int{200, 429}},        // the longest prefix
		{"10.1.2.4", "1, 1;w=86400", []int{200, 429}},        // counts for itself
		{"10.2.3.4", "4, 4;w=86400", []int{200}},             // counts with
		{"2001:db8::1", "4, 4;w=86400", []int{200}},          // each other
		{"2001:0DB8:0::2", "4, 4;w=86400", []int{200}},       // however written
		{"::ffff:10.3.4.5", "4, 4;w=86400", []int{200, 429}}, // also in IPv6 form
		{"192.0.2.1", "", []int{200, 200}},                   // no network
		{"2001:db9::1", "", []int{200, 200}},                 // no network
	} {
		for i, want := range c.statuses {
			a := s.ask("/", "x-forwarded-for: "+c.client)
			if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != c.limit {
				t.Errorf("request %d of %s: status %d with limit %q, want %d with %q", i+1, c.client, a.status, got, want, c.limit)
			}
		}
	}
}
