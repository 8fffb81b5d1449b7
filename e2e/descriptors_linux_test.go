package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/testenv"
)

// TestReloadWithoutFileDescriptors changes the rules while the program can open no
// file, and not again.
func TestReloadWithoutFileDescriptors(t *testing.T) {
	rules := func(amount int) string {
		return fmt.Sprintf("{domain: api, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: %d}}]}", amount)
	}
	dir := writeRules(t, rules(3))
	w := startWeir(t, dir)
	testenv.OK(t, unix.Prlimit(w.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 1 << 10}, nil))
	replaceRules(t, dir, rules(7))
	const told = `"level":"warning","@message":"the rules cannot be read at the moment, they are read again soon"`
	wantLog := func(line string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if !strings.Contains(w.output.String(), line) {
				return fmt.Errorf("it does not say %s", line)
			}
			return nil
		})
	}
	wantLog(told)
	testenv.OK(t, unix.Prlimit(w.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 10, Max: 1 << 10}, nil))
	testenv.Eventually(t, func() error {
		if n := strings.Count(w.output.String(), `"@message":"rules loaded"`); n != 2 {
			return fmt.Errorf("%d loads, want 2", n)
		}
		return nil
	})
	if log := w.output.String(); strings.Contains(log, "refused") || strings.Count(log, told) != 1 {
		t.Error("the log calls the rules bad, or tells more than once that they cannot be read")
	}
	if errors := w.metric("ratelimit_service_config_load_error"); errors != 0 {
		t.Errorf("%v loads are counted as failed, want none", errors)
	}
}

// TestMoreConnectionsThanFileDescriptors opens more connections to gRPC than the program
// may have files. It must answer who is connected already, and others at all other ports.
func TestMoreConnectionsThanFileDescriptors(t *testing.T) {
	w := runWeir(t, []string{"CONFIG_PATH=" + writeRules(t, attackedRules)}, "/bin/sh", "-c", `ulimit -n 300 && exec "$0"`, program(t))
	w.waitUntilHealthy()
	connected := startNeighbour(t, w.grpc, 0)
	for range 400 {
		attack(t, w.grpc)
	}
	connected.ask() // which fails the test if it has no answer
	for _, url := range []string{"http://" + w.http + "/healthcheck", "http://" + w.metrics + "/metrics", "http://" + w.debug + "/"} {
		wantPage(t, clientAt("127.0.0.2"), url, "")
	}
}

// TestConnectionThatSaysNothing connects to gRPC and sends nothing.
func TestConnectionThatSaysNothing(t *testing.T) {
	t.Parallel()
	w := startWeir(t, writeRules(t, attackedRules))
	conn := testenv.Must(net.Dial("tcp", w.grpc))(t)
	defer conn.Close()
	testenv.OK(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection ends with %v, want the server to close it", err)
	}
}
