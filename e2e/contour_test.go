package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/testenv"
)

// Contour names the cluster of an ExtensionService like this.
const contourCluster = "extension/projectcontour/weir"

// contour is what Contour makes of the manifests in examples/contour. A policy
// on a route stands in place of that of the virtual host.
var contour = gateway{
	rateLimit: `
domain: contour
failure_mode_deny: false
enable_x_ratelimit_headers: DRAFT_VERSION_03
rate_limit_service:
  transport_api_version: V3
  grpc_service: {envoy_grpc: {cluster_name: ` + contourCluster + `, authority: extension.projectcontour.weir}}
`,
	virtualHost: `
rate_limits: [{actions: [{remote_address: {}}]}]
routes:
  - match: {prefix: /login}
    route:
      cluster: echo
      rate_limits:
        - actions: [{remote_address: {}}]
        - actions: [{generic_key: {descriptor_value: login}}]
        - actions: [{generic_key: {descriptor_value: login}}, {remote_address: {}}]
  - match: {prefix: /}
    route: {cluster: echo}
`,
	manager: "{use_remote_address: true, xff_num_trusted_hops: 1}", // clients tell their address
}

func TestContourLimits(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	rules := testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(t), "examples/contour/rules/contour.yaml")))(t)
	w := startWeir(t, writeRules(t, string(rules)), onRedis(testenv.RedisServer(t))...)
	doc := contour.bootstrap(t, w.grpc, startUpstream(t))
	get(t, doc, "static_resources", "clusters", 0)["name"] = contourCluster
	e := runEnvoy(t, doc)

	awayFromEnd(time.Minute)
	const plain, login = "100, 100;w=60", "3, 100;w=60, 50;w=1, 3;w=60"
	for _, c := range []struct {
		client, path, limit string
		statuses            []int
	}{
		{"192.0.2.1", "/", plain, []int{200, 200, 200, 200}},
		{"192.0.2.1", "/login", login, []int{200, 200, 200, 429}},
		{"192.0.2.1", "/", plain, []int{200}},
		{"192.0.2.2", "/login", login, []int{200, 200, 200, 429}},
	} {
		for i, want := range c.statuses {
			a := e.ask(c.path, "x-forwarded-for: "+c.client)
			if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != c.limit {
				t.Errorf("request %d of %s to %s: status %d with limit %q, want %d with %q", i+1, c.client, c.path, a.status, got, want, c.limit)
			}
		}
	}
}
