package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/testenv"
)

// The rules and the routes of Istio's task on rate limits: a limit for each
// path, and one for all paths of the route named api.
const istioRules = `
domain: ratelimit
descriptors:
  - key: PATH
    value: "/productpage"
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: PATH
    value: "api"
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: PATH
    rate_limit: {unit: minute, requests_per_unit: 100}
`

// Istio names clusters like this, and Envoy sends the name as :authority.
const istioCluster = "outbound|8081||ratelimit.default.svc.cluster.local"

var istio = gateway{
	rateLimit: `
domain: ratelimit
rate_limit_service:
  transport_api_version: V3
  grpc_service: {envoy_grpc: {cluster_name: "` + istioCluster + `"}}
`,
	virtualHost: `
rate_limits: [{actions: [{request_headers: {header_name: ":path", descriptor_key: PATH}}]}]
routes:
  - match: {prefix: /api/v1/products}
    name: api
    route:
      cluster: echo
      rate_limits:
        - actions:
            - header_value_match:
                descriptor_key: PATH
                descriptor_value: api
                headers: [{name: ":path", string_match: {safe_regex: {regex: "/api/v1/products/[1-9]{1,2}"}}}]
  - match: {prefix: /}
    route: {cluster: echo}
`,
}

func TestIstioLimits(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	// The environment of Istio's sample, but for ports.
	root := t.TempDir()
	writeConfigMap(t, filepath.Join(root, "ratelimit", "config"), "config.yaml", istioRules)
	w := runWeir(t, append(onRedis(testenv.RedisServer(t)),
		"REDIS_SOCKET_TYPE=tcp", "LOG_LEVEL=debug", "USE_STATSD=false",
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true",
	), program(t))
	w.waitUntilHealthy()
	doc := istio.bootstrap(t, w.grpc, startUpstream(t))
	get(t, doc, "static_resources", "clusters", 0)["name"] = istioCluster
	e := runEnvoy(t, doc)

	awayFromEnd(time.Minute)
	for _, c := range []struct {
		limit string
		paths []string // asked for in this order
		last  int      // status of the last one, those before are 200
	}{
		{"1, 1;w=60", []string{"/productpage", "/productpage"}, 429},
		{"2, 2;w=60", []string{"/api/v1/products/1", "/api/v1/products/2", "/api/v1/products/3"}, 429},
		{"100, 100;w=60", []string{"/login", "/login", "/static/logo.png"}, 200},
	} {
		for i, path := range c.paths {
			want := 200
			if i == len(c.paths)-1 {
				want = c.last
			}
			a := e.ask(path)
			if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != c.limit {
				t.Errorf("request %d, to %s: status %d with limit %q, want %d with %q", i+1, path, a.status, got, want, c.limit)
			}
		}
	}
}

// writeConfigMap writes a file as Kubernetes mounts it from a ConfigMap: behind
// two symbolic links, of which the one of the directory is replaced on changes.
func writeConfigMap(t *testing.T, dir, name, text string) {
	t.Helper()
	const version = "..2026_01_02_15_04_05.123456789"
	testenv.OK(t, os.MkdirAll(filepath.Join(dir, version), 0o700))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o600))
	for link, target := range map[string]string{"..data": version, name: filepath.Join("..data", name)} {
		testenv.OK(t, os.Symlink(target, filepath.Join(dir, link)))
	}
}
