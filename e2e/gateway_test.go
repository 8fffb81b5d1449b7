package e2e

import (
	"maps"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/testenv"
)

// gateway is how the Envoy of a test differs from the one of examples/envoy.
// The texts are YAML in Envoy's own words.
type gateway struct {
	rateLimit   string // fields of the rate-limit filter
	filters     string // HTTP filters in front of it, a list
	virtualHost string // the routes and their rate limits, if not those of the example
	manager     string // further fields of the HTTP connection manager
	http2       bool   // the upstream speaks HTTP/2, as for gRPC
}

// bootstrap returns the whole configuration of Envoy.
func (g gateway) bootstrap(t *testing.T, weirAddr, upstreamAddr string) map[string]any {
	t.Helper()
	doc := exampleBootstrap(t)
	setUpstreams(t, doc, weirAddr, upstreamAddr)
	manager := connectionManager(t, doc)
	parse(t, g.manager, &manager)

	filter := get(t, manager, "http_filters", 0, "typed_config")
	maps.Copy(filter, patient)
	parse(t, g.rateLimit, &filter)
	var before []any
	parse(t, g.filters, &before)
	manager["http_filters"] = append(before, manager["http_filters"].([]any)...)

	if g.virtualHost != "" {
		host := map[string]any{"name": "all", "domains": []string{"*"}}
		parse(t, g.virtualHost, &host)
		get(t, manager, "route_config")["virtual_hosts"] = []any{host}
	}

	if g.http2 {
		const options = "typed_extension_protocol_options"
		get(t, doc, "static_resources", "clusters", 1)[options] = get(t, doc, "static_resources", "clusters", 0)[options]
	}
	return doc
}

// parse reads YAML into what into points to, adding to what is there.
func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// startGateway starts Weir with the given rules and environment on a Redis of
// its own, and Envoy in front of the upstream.
func startGateway(t *testing.T, g gateway, upstreamAddr, rules string, env ...string) *stack {
	t.Helper()
	testenv.Envoy(t) // before anything is built and started for nothing
	awayFromMidnight(t)
	s := &stack{redis: testenv.RedisServer(t), rules: writeRules(t, rules)}
	s.weir = startWeir(t, s.rules, append(onRedis(s.redis), env...)...)
	s.envoy = runEnvoy(t, g.bootstrap(t, s.weir.grpc, upstreamAddr))
	return s
}
