package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"weir/internal/testenv"
)

// fullPipe returns the writing end of a full pipe. A write to it blocks.
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
	testenv.OK(t, syscall.SetNonblock(fd, false)) // the program inherits this mode
	return writer
}

// TestEndOfWhatHangsAtStart checks that commands exit after a signal while a write hangs.
func TestEndOfWhatHangsAtStart(t *testing.T) {
	t.Parallel()
	dir, rules := t.TempDir(), writeRules(t, userRules(3))
	testenv.OK(t, syscall.Mkfifo(filepath.Join(dir, "results"), 0o600)) // without a reader
	tests := filepath.Join(dir, "a_test.yaml")
	testenv.Write(t, tests, "rules: ["+rules+"]\ntests:\n- name: a\n  domain: api\n  steps:\n  - send: 1\n    descriptors: [{user: x}]\n")
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
			cmd.Stdout, cmd.Stderr = pipe, pipe
			p := launch(t, cmd, cmd.Start)
			p.waitUntilIdle()
			p.signal(syscall.SIGTERM)
			p.waitForEnd()
		})
	}
}

// waitUntilIdle waits until the program uses no processor, and so has reached the hanging write.
func (p *process) waitUntilIdle() {
	p.t.Helper()
	before := -1.0
	var since time.Time
	testenv.Until(p.t, "it uses no processor", func() bool {
		now := testenv.Must(testenv.Must(procfs.NewProc(p.cmd.Process.Pid))(p.t).Stat())(p.t).CPUTime()
		if now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
}

// TestStdoutThatBreaks sends requests to a Weir that logs all decisions to a closed pipe.
func TestStdoutThatBreaks(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	testenv.OK(t, err)
	cmd := exec.Command(program(t))
	cmd.Dir = testenv.Repository(t)
	cmd.Env = append(append(os.Environ(), anyPort...), "CONFIG_PATH="+writeRules(t, userRules(1)), "DECISION_LOG=all", "DECISION_LOG_RATE=1000000", "DRAIN_DELAY=0s")
	cmd.Stdout = writer
	w := &weir{process: launch(t, cmd, cmd.Start)}
	w.waitUntilHealthy()
	reader.Close()
	writer.Close()
	askFor(t, w, 100, "user", "alice")
	testenv.Until(t, "decisions are lost", func() bool {
		return w.metric("weir_decision_log_dropped_total", `reason="failed"`) > 0
	})
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}
