package e2e

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"weir/internal/testenv"
)

// Envoy reaches Weir over a unix socket, also after a Weir that was killed and
// left the socket behind.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	awayFromMidnight(t)
	socket := filepath.Join(t.TempDir(), "weir.sock")
	start := func() *weir { return startWeir(t, writeRules(t, twoADay), "GRPC_UDS="+socket) }
	w := start()
	if w.grpc != "unix:"+socket {
		t.Errorf("gRPC is at %s", w.grpc)
	}
	e := startPatientEnvoy(t, func(cluster map[string]any) {
		get(t, cluster, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint")["address"] = map[string]any{
			"pipe": map[string]any{"path": socket},
		}
	})
	e.want("/", "x-user: alice", 200, 200, 429)
	w.signal(syscall.SIGKILL)
	w.exitCode()
	start()
	testenv.Eventually(t, func() error {
		if got := e.ask("/", "x-user: probe").status; got == 500 {
			return fmt.Errorf("status %d", got)
		}
		return nil
	})
	e.want("/", "x-user: alice", 200, 200, 429) // the counters were in memory
}
