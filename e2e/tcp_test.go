package e2e

import (
	"strings"
	"testing"

	"weir/internal/testenv"
)

// connectionFilters limit the connections of each client before they are
// forwarded.
const connectionFilters = `
- name: envoy.filters.network.ratelimit
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.network.ratelimit.v3.RateLimit
    stat_prefix: connections
    domain: api
    timeout: 60s
    failure_mode_deny: true
    descriptors:
      - entries: [{key: connections_of, value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}]
    rate_limit_service:
      transport_api_version: V3
      grpc_service: {envoy_grpc: {cluster_name: weir}}
- name: envoy.filters.network.tcp_proxy
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
    stat_prefix: connections
    cluster: echo
`

func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	awayFromMidnight(t)
	const rules = `
domain: api
descriptors:
  - key: connections_of
    value: 127.0.0.1
    rate_limit: {unit: day, requests_per_unit: 2}
`
	w := startWeir(t, writeRules(t, rules), onRedis(testenv.RedisServer(t))...)
	doc := exampleBootstrap(t)
	setUpstreams(t, doc, w.grpc, startUpstream(t))
	var filters []any
	parse(t, connectionFilters, &filters)
	get(t, doc, "static_resources", "listeners", 0, "filter_chains", 0)["filters"] = filters
	e := runEnvoy(t, doc)

	for i := range 4 { // each on a connection of its own
		a, err := fetch("http://" + e.addr)
		if admitted := err == nil && a.status == 200; admitted != (i < 2) {
			t.Errorf("connection %d: status %d, %v; want two connections", i+1, a.status, err)
		}
	}
	a := testenv.Must(fetch("http://" + e.admin + "/stats?filter=ratelimit.connections"))(t)
	for _, want := range []string{"ok: 2", "over_limit: 2", "cx_closed: 2", "error: 0"} {
		if !strings.Contains(a.body, "ratelimit.connections."+want+"\n") {
			t.Errorf("Envoy does not count %s:\n%s", want, a.body)
		}
	}
}
