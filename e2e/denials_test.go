package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

const hashOfAlice = "#K9gGyX8OAK8aH8Myj6djqQ"

// askAsAlice asks n times.
func askAsAlice(t *testing.T, w *weir, n int) {
	t.Helper()
	client := dial(t, w.grpc)
	for range n {
		testenv.Must(client.ShouldRateLimit(t.Context(), &service.RateLimitRequest{Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("user", "alice")}}))(t)
	}
}

// TestDenialsHoldHashes finds a denied user by the hash of its name alone, in the page of
// denials, in the log of decisions and in Redis.
func TestDenialsHoldHashes(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisServer(t)
	w := startWeir(t, writeRules(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]\n"),
		append(onRedis(redis), "CACHE_KEY_HASH_VALUES=true", "DECISION_LOG=denied")...)
	askAsAlice(t, w, 3)
	page := testenv.Must(fetch("http://" + w.debug + "/denials"))(t)
	var denials struct {
		Minute struct {
			Limits []struct {
				Rule   string
				Denied int
				Keys   []struct {
					Denied     int
					Descriptor struct{ Entries []struct{ Key, Value string } }
				}
			}
		}
	}
	testenv.OK(t, json.Unmarshal([]byte(page.body), &denials))
	l := denials.Minute.Limits
	if len(l) != 1 || l[0].Rule != "user" || l[0].Denied != 2 || l[0].Keys[0].Denied != 2 || l[0].Keys[0].Descriptor.Entries[0].Value != hashOfAlice {
		t.Errorf("got %s", page.body)
	}
	testenv.Eventually(t, func() error {
		if n := strings.Count(w.output.String(), `"value":"`+hashOfAlice+`","hashed":true`); n != 2 {
			return fmt.Errorf("got %d decisions, want 2", n)
		}
		return nil
	})
	for what, text := range map[string]string{"page": page.body, "output": w.output.String()} {
		if strings.Contains(text, "alice") {
			t.Errorf("the %s holds the value: %s", what, text)
		}
	}
	conn := testenv.Must(net.Dial("tcp", redis.Addr()))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "KEYS *user*\r\n")
	reply := bufio.NewScanner(conn)
	for range 3 {
		reply.Scan() // how many there are, how long the first is, and the first
	}
	if !strings.Contains(reply.Text(), hashOfAlice) {
		t.Errorf("got key %s (error: %v), want %s in it", reply.Text(), reply.Err(), hashOfAlice)
	}
}

// The log of decisions has lines as docs/operations.md shows one, which has a trace, too.
func TestDocumentedDecision(t *testing.T) {
	t.Parallel()
	const limit = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"
	w := startWeir(t, writeRules(t, limit), "DECISION_LOG=denied")
	request := &service.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("user", "alice")}}
	client := dial(t, w.grpc)
	for range 11 { // in two minutes at most
		testenv.Must(client.ShouldRateLimit(t.Context(), request))(t)
	}
	want := decision(t, documentedBlock(t, "docs/operations.md", `{"time"`))
	delete(want, "trace_id")
	testenv.Eventually(t, func() error {
		_, rest, _ := strings.Cut(w.output.String(), `{"time"`)
		line, _, found := strings.Cut(rest, "\n")
		if !found {
			return fmt.Errorf("no decision in %s", w.output.String())
		}
		if got := decision(t, `{"time"`+line); !maps.Equal(got, want) {
			return fmt.Errorf("got %v, documented is %v", got, want)
		}
		return nil
	})
}

// decision returns a line of the log, without times and the path of its rules.
func decision(t *testing.T, line string) map[string]string {
	t.Helper()
	var decoded map[string]any
	if err := json.Unmarshal([]byte(line), &decoded); err != nil {
		t.Fatal(line, err)
	}
	fields := map[string]string{}
	for name, value := range decoded {
		fields[name] = fmt.Sprint(value)
	}
	for _, name := range []string{"time", "retry_after"} {
		if fields[name] == "" {
			t.Errorf("no %s in %s", name, line)
		}
		delete(fields, name)
	}
	_, fields["place"], _ = strings.Cut(fields["place"], ".yaml:")
	return fields
}

// TestStdoutMayHangOrBreak asks a Weir that logs all its decisions to a pipe that nobody
// reads, or that is closed.
func TestStdoutMayHangOrBreak(t *testing.T) {
	t.Parallel()
	rules := writeRules(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]\n")
	for name, breaks := range map[string]bool{"hangs": false, "breaks": true} {
		t.Run(name, func(t *testing.T) {
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			defer writer.Close()
			cmd := exec.Command(program(t))
			cmd.Dir = testenv.Repository(t)
			cmd.Env = append(os.Environ(), append(slices.Clone(anyPort), "CONFIG_PATH="+rules, "DECISION_LOG=all", "DECISION_LOG_RATE=1000000", "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=500ms")...)
			w := &weir{process: launch(t, cmd, func() error {
				cmd.Stdout = writer
				return cmd.Start()
			})}
			w.waitUntilHealthy()
			reason := "slow"
			if breaks {
				reader.Close()
				writer.Close()
				reason = "failed"
			}
			askAsAlice(t, w, 2000)
			testenv.Eventually(t, func() error {
				if w.hasMetric(fmt.Sprintf("weir_decision_log_left_out_total{reason=%q} 0", reason)) == nil {
					return fmt.Errorf("nothing is %s", reason)
				}
				return nil
			})
			w.signal(syscall.SIGTERM)
			if code := w.exitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
