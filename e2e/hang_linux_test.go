package e2e

import (
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

// longestEnd is what a process may take to end that is given a second to drain, on
// a busy machine. By itself it would never end.
const longestEnd = 20 * time.Second

// fifo makes a pipe at path, in the place of what is there. Nobody writes to it.
func fifo(t *testing.T, path string) {
	t.Helper()
	next := path + ".next"
	testenv.OK(t, syscall.Mkfifo(next, 0o600))
	testenv.OK(t, os.Rename(next, path))
}

// fullPipe is a pipe that takes no more bytes: a write to it blocks.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	testenv.OK(t, err)
	t.Cleanup(func() { reader.Close(); writer.Close() })
	fd := int(writer.Fd())
	testenv.OK(t, syscall.SetNonblock(fd, true))
	for chunk := make([]byte, 4096); err == nil; {
		_, err = syscall.Write(fd, chunk)
	}
	testenv.OK(t, syscall.SetNonblock(fd, false)) // the program shares this
	return writer
}

// TestEndOfWhatHangsAtStart lets the start wait for what never comes.
func TestEndOfWhatHangsAtStart(t *testing.T) {
	t.Parallel()
	dir, rules := t.TempDir(), writeRules(t, userRules(3))
	fifo(t, filepath.Join(dir, "results"))
	tests := filepath.Join(dir, "a_test.yaml")
	write(t, tests, "rules: ["+rules+"]\ntests:\n- name: a\n  domain: api\n  steps:\n  - send: 1\n    descriptors: [{user: x}]\n")
	for name, args := range map[string][]string{
		"a log that nobody reads":               {"serve"},
		"problems that nobody reads":            {"validate", "/nowhere"},
		"an answer that nobody reads":           {"explain", "many", "user=x", "--config=" + rules},
		"a file of results that is not written": {"test", "--junit=" + dir + "/results", tests},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(program(t), args...)
			cmd.Env = append(append(os.Environ(), anyPort...), "CONFIG_PATH="+rules, "DRAIN_DELAY=1s", "DRAIN_TIMEOUT=1s")
			pipe := fullPipe(t)
			p := launch(t, cmd, func() error {
				cmd.Stdout, cmd.Stderr = pipe, pipe
				return cmd.Start()
			})
			p.waitUntilIdle()
			p.wantEndWithin(longestEnd)
		})
	}
}

// waitUntilIdle waits until the program sleeps, so that it waits for what hangs.
func (p *process) waitUntilIdle() {
	p.t.Helper()
	var before string
	since := time.Now()
	testenv.Eventually(p.t, func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		fields := strings.Fields(string(text))
		if used := fields[13] + " " + fields[14]; used != before { // of processors
			before, since = used, time.Now()
		}
		if time.Since(since) < 300*time.Millisecond {
			return fmt.Errorf("it has just used a processor: %s", before)
		}
		return nil
	})
}

// Pipes in the place of files that hold certificates would let the start hang: the
// program ends by itself and says why.
func TestPipesAreNoCertificates(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	fifo(t, pipe)
	for name, env := range map[string]string{
		"certificate":   "GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=PIPE GRPC_SERVER_TLS_KEY=PIPE",
		"Redis":         "REDIS_TLS=true REDIS_URL=127.0.0.1:1 REDIS_TLS_CACERT=PIPE",
		"control plane": "CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_SERVER_TLS_CACERT=PIPE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantNoStart(t, strings.Fields(strings.ReplaceAll(env, "PIPE", pipe)), pipe+": it is not a regular file, allowed are regular files and links to them")
		})
	}
}

// TestRulesThatBecomeAPipe replaces the rules of a server by a pipe, on which a read
// would never return. For certificates, the package follow has this test.
func TestRulesThatBecomeAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(writeRules(t, userRules(3)), "rules.yaml")
	w := startWeir(t, path, "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=1s")
	fifo(t, path)
	want := "read " + path + ": it is not a regular file, allowed are regular files and links to them"
	testenv.Eventually(t, func() error {
		page, err := fetch("http://" + w.debug + "/")
		if err == nil && !strings.Contains(page.body, want) {
			err = fmt.Errorf("the status page does not say %q:\n%s", want, page.body)
		}
		return err
	})
	response := testenv.Must(client.Post("http://"+w.debug+"/-/reload", "", nil))(t)
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), want) {
		t.Errorf("reload: %d %s", response.StatusCode, body)
	}
	w.wantEndWithin(longestEnd)
}

// TestStdoutThatBreaks asks a Weir that logs all its decisions to a pipe that is closed.
func TestStdoutThatBreaks(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	testenv.OK(t, err)
	cmd := exec.Command(program(t))
	cmd.Dir = testenv.Repository(t)
	cmd.Env = append(append(os.Environ(), anyPort...), "CONFIG_PATH="+writeRules(t, userRules(1)), "DECISION_LOG=all", "DECISION_LOG_RATE=1000000", "DRAIN_DELAY=0s")
	w := &weir{process: launch(t, cmd, func() error {
		cmd.Stdout = writer
		return cmd.Start()
	})}
	w.waitUntilHealthy()
	reader.Close()
	writer.Close()
	askFor(t, w, 100, "user", "alice")
	testenv.Until(t, "decisions are lost", func() bool {
		return w.metric("weir_decision_log_left_out_total", `reason="failed"`) > 0
	})
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}
