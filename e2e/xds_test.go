package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"weir/internal/testenv"
)

// The rules come from a control plane: what it sends serves at once, what is bad
// is refused and changes nothing, and the stream does not hold up the end.
func TestRulesFromControlPlane(t *testing.T) {
	t.Parallel()
	plane := testenv.StartControlPlane(t)
	set := func(version, unit string, amount int) {
		plane.SetFor("weir", version, fmt.Sprintf(`{"name": "x", "domain": "api", "descriptors": [{"key": "user", "rate_limit": {"unit": %q, "requests_per_unit": %d}}]}`, unit, amount))
	}
	set("1", "YEAR", 3)
	command := documentedBlock(t, "docs/xds.md", "CONFIG_TYPE=GRPC_XDS_SOTW")
	w := runWeir(t, append(withProgram(t), "CONFIG_GRPC_XDS_NODE_METADATA=zone=a",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization:swordfish", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=100ms",
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=100ms", "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=10m",
	), testenv.Shell(t), "-c", strings.ReplaceAll(command, "control-plane:18000", plane.Addr))
	w.waitUntilHealthy()
	admits := func(want uint32) { w.waitForRemaining(want, "api", "user", "alice") }
	admits(3)
	if got := plane.Requests()[0].GetNode().GetId(); got != "weir" {
		t.Errorf("the node is %q", got)
	}
	if got := plane.Requests()[0].GetNode().GetMetadata().GetFields()["zone"].GetStringValue(); got != "a" {
		t.Errorf("the zone of the node is %q", got)
	}
	set("2", "YEAR", 5)
	admits(5)

	set("3", "UNKNOWN", 9)
	refusal := plane.WaitFor("that refuses", func(r *discovery.DiscoveryRequest) bool { return r.GetErrorDetail() != nil })
	if got := refusal.GetErrorDetail().GetMessage(); !strings.HasPrefix(got, `resource "x": descriptors[0].rate_limit.unit: a unit is needed`) {
		t.Errorf("refused because of %q", got)
	}
	w.waitForMetric("ratelimit_service_config_load_error 1")
	admits(5)

	plane.Stop()
	w.waitForMetric("weir_xds_connected 0")
	admits(5)
	plane.Start()
	set("1", "YEAR", 7)
	admits(7)

	w.signal(syscall.SIGTERM)
	w.wantExit(0)
	if strings.Contains(w.output.String(), "swordfish") {
		t.Error("the log shows a header to the control plane")
	}
}

// Without its control plane a process starts, lets nobody believe that it has
// rules, and ends when it is told to.
func TestStartWithoutControlPlane(t *testing.T) {
	t.Parallel()
	plane := testenv.StartControlPlane(t)
	plane.Stop()
	w := runWeir(t, []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + plane.Addr, "DRAIN_DELAY=0s"}, program(t))
	w.output.WaitFor(t, "connection refused")
	w.waitForHealth(500, "")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}
