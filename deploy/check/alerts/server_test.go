package alerts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// buildWeir builds the program, from its own module, and returns its path.
func buildWeir(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-o", path, "./cmd/server")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building weir: %v\n%s", err, out)
	}
	return path
}

// weir is a running server.
type weir struct {
	t             *testing.T
	http, metrics string // addresses
	users         int    // that have asked
}

// startWeir runs a server on ports of the system until the test ends.
func startWeir(t *testing.T, program string, environment ...string) *weir {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), append([]string{
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0",
		"PROMETHEUS_ADDR=127.0.0.1:0", "DRAIN_DELAY=0s", "LOG_FORMAT=json", "DISABLE_STATS=true",
	}, environment...)...)
	log := new(testenv.Log)
	stderr := testenv.Must(cmd.StderrPipe())(t)
	testenv.OK(t, cmd.Start())
	w := &weir{t: t}
	listening := make(chan struct{})
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			fmt.Fprintf(log, "%s\n", lines.Text())
			var record struct {
				Message       string `json:"@message"`
				HTTP, Metrics string
			}
			if json.Unmarshal(lines.Bytes(), &record) == nil && record.Message == "listening" {
				w.http, w.metrics = record.HTTP, record.Metrics
				close(listening)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	select {
	case <-listening:
	case <-read:
		t.Fatalf("weir ended:\n%s", log)
	case <-time.After(time.Minute):
		t.Fatal("weir does not listen after a minute")
	}
	testenv.Eventually(t, func() error {
		response, err := http.Get("http://" + w.http + "/healthcheck")
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("not healthy: %s", response.Status)
		}
		return nil
	})
	return w
}

// ask sends a request for one descriptor.
func (w *weir) ask(domain, key, value string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, domain, key, value)
	response := testenv.Must(http.Post("http://"+w.http+"/json", "application/json", strings.NewReader(body)))(w.t)
	defer response.Body.Close()
	testenv.Must(io.Copy(io.Discard, response.Body))(w.t) // so that the connection is used again
}

// traffic is what a server sees between two scrapes: requests that are admitted and denied,
// some in shadow mode, some without a rule or for an unknown domain.
func (w *weir) traffic(times int) {
	w.t.Helper()
	for range times {
		w.users++
		w.ask("api", "user", fmt.Sprint(w.users))
		w.ask("api", "user", "alice")
		w.ask("api", "tried", "bob")
		w.ask("api", "stranger", "carol")
	}
	w.ask("unknown", "user", "alice")
}

// waitFor waits until the metrics have a line, while requests arrive.
func (w *weir) waitFor(line string) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		w.traffic(1)
		response, err := http.Get("http://" + w.metrics + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var text bytes.Buffer
		if _, err := text.ReadFrom(response.Body); err != nil {
			return err
		}
		if !strings.Contains(text.String(), "\n"+line+"\n") {
			return fmt.Errorf("there is no %s", line)
		}
		return nil
	})
}
