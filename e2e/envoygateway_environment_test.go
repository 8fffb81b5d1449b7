package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"weir/internal/testenv"
)

// envoyGatewayEnvironment is that of the container envoy-ratelimit which Envoy
// Gateway 1.9.1 starts with its defaults and a Redis at redis.redis.svc.
var envoyGatewayEnvironment = []string{
	"RUNTIME_ROOT=/data",
	"RUNTIME_SUBDIRECTORY=ratelimit",
	"RUNTIME_IGNOREDOTFILES=true",
	"RUNTIME_WATCH_ROOT=false",
	"LOG_LEVEL=info",
	"USE_STATSD=false",
	"CONFIG_TYPE=GRPC_XDS_SOTW",
	"CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001",
	"CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
	"GRPC_SERVER_USE_TLS=true",
	"GRPC_SERVER_TLS_CERT=/certs/tls.crt",
	"GRPC_SERVER_TLS_KEY=/certs/tls.key",
	"GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt",
	"CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
	"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt",
	"CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key",
	"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt",
	"FORCE_START_WITHOUT_INITIAL_CONFIG=true",
	"REDIS_SOCKET_TYPE=tcp",
	"REDIS_URL=redis.redis.svc:6379",
	"USE_PROMETHEUS=true",
	"PROMETHEUS_ADDR=:19001",
	"PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
}

// envoyGatewayResource are what Envoy Gateway makes of the BackendTrafficPolicy in
// examples/envoy-gateway.
const envoyGatewayResource = `{
	"name": "default/gateway/http", "domain": "default/gateway/http",
	"descriptors": [{
		"key": "httproute/default/shop/rule/0", "value": "httproute/default/shop/rule/0",
		"descriptors": [{"key": "rule-0-match-0", "rate_limit": {"requests_per_unit": 3, "unit": "HOUR"}}]
	}]
}`

// What Envoy Gateway starts, with another image: its environment and nothing
// else but patience, its certificates, nobody as user, a read-only root. Beside
// it a control plane like that of Envoy Gateway, before it an Envoy as that
// configures one.
func TestEnvoyGatewayEnvironmentServesEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	p := newPod(t)
	p.redis()
	authority := testenv.NewAuthority(t)
	plane := p.ControlPlane(t, "127.0.0.1:18001", controlPlaneTLS(t, authority))
	cert, key := authority.Issue(t, "*.envoy-gateway-system")
	p.weir(slices.Concat(envoyGatewayEnvironment, patientWithRedis), "envoy-gateway redis.redis.svc", map[string]map[string]string{
		"/certs": {"tls.crt": string(cert), "tls.key": string(key), "ca.crt": string(authority.PEM())},
	})
	p.envoy(envoyGatewayBootstrap(t, authority))
	p.waitFor(500, "http://"+podEnvoy+"/", "x-user-id: alice") // no rules, and failure_mode_deny
	plane.SetFor("envoy-ratelimit", "1", envoyGatewayResource)
	p.waitFor(200, "http://127.0.0.1:8080/healthcheck")
	p.waitFor(200, "http://127.0.0.1:19001/metrics")
	p.waitFor(200, "http://"+podEnvoy+"/", "x-user-id: bob")

	awayFromEnd(time.Hour)
	loop := exec.Command(testenv.Shell(t), "-c", documentedBlock(t, "examples/envoy-gateway/README.md", "for i in"))
	loop.Env = append(os.Environ(), "GATEWAY_HOST="+podEnvoy)
	asked := launch(t, loop, func() error { return p.Start(loop) })
	if code := asked.exitCode(); code != 0 {
		t.Errorf("the README's loop exits with %d", code)
	}
	var statuses []string
	for line := range strings.Lines(asked.output.String()) {
		line = strings.TrimSpace(line)
		if status, is := strings.CutPrefix(line, "HTTP/1.1 "); is {
			statuses = append(statuses, status[:3])
		} else if limit, is := strings.CutPrefix(line, "x-ratelimit-limit: "); is && limit != "3, 3;w=3600" {
			t.Errorf("x-ratelimit-limit: %s", limit)
		}
	}
	if want := []string{"200", "200", "200", "429"}; !slices.Equal(statuses, want) || !strings.Contains(asked.output.String(), "x-ratelimit-remaining: 2") {
		t.Errorf("statuses %q, want %q in:\n%s", statuses, want, asked.output.String())
	}
}

// controlPlaneTLS is that of Envoy Gateway: it wants to see a certificate.
func controlPlaneTLS(t *testing.T, authority *testenv.Authority) grpc.ServerOption {
	t.Helper()
	cert, key := authority.Issue(t, "envoy-gateway")
	pair := testenv.Must(tls.X509KeyPair(cert, key))(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.PEM())
	return grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}))
}

// envoyGatewayBootstrap is the bootstrap of examples/envoy with the filter, the
// route and the cluster that Envoy Gateway makes. The filter is patient, and the
// certificate comes from files.
func envoyGatewayBootstrap(t *testing.T, authority *testenv.Authority) map[string]any {
	t.Helper()
	dir := t.TempDir()
	cert, key := authority.Issue(t, "*.envoy-gateway-system")
	write(t, dir+"/tls.crt", string(cert))
	write(t, dir+"/tls.key", string(key))
	write(t, dir+"/ca.crt", string(authority.PEM()))
	doc := gateway{
		upstream:  podUpstream,
		rateLimit: "{domain: default/gateway/http, disable_x_envoy_ratelimited_header: true, enable_retry_after_header: false}",
		virtualHost: `
routes:
  - match: {prefix: /}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        domain: default/gateway/http
        rate_limits:
          - actions:
              - generic_key: {descriptor_key: httproute/default/shop/rule/0, descriptor_value: httproute/default/shop/rule/0}
              - request_headers: {descriptor_key: rule-0-match-0, header_name: x-user-id}
`,
		cluster: strings.ReplaceAll(`
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificates: [{certificate_chain: {filename: DIR/tls.crt}, private_key: {filename: DIR/tls.key}}]
      validation_context: {trusted_ca: {filename: DIR/ca.crt}}
`, "DIR", dir),
	}.bootstrap(t, "127.0.0.1:8081")
	setAddr(t, get(t, doc, "static_resources", "listeners", 0), podEnvoy)
	return doc
}
