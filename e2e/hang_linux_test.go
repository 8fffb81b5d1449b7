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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close(); writer.Close() })
	fd := int(writer.Fd())
	testenv.OK(t, syscall.SetNonblock(fd, true))
	for chunk := make([]byte, 4096); err == nil; {
		_, err = syscall.Write(fd, chunk)
	}
	if err := syscall.SetNonblock(fd, false); err != nil { // the program shares this
		t.Fatal(err)
	}
	return writer
}

// TestEndOfWhatHangsAtStart lets the start wait for what never comes.
func TestEndOfWhatHangsAtStart(t *testing.T) {
	dir := t.TempDir()
	fifo(t, filepath.Join(dir, "crt"))
	rules := writeRules(t, userRules(3))
	env := []string{"CONFIG_PATH=" + rules, "DRAIN_DELAY=1s", "DRAIN_TIMEOUT=1s"}
	for name, args := range map[string][]string{
		"a log that nobody reads":               {"serve"},
		"problems that nobody reads":            {"validate", "/nowhere"},
		"an answer that nobody reads":           {"explain", "many", "user=x", "--config=" + rules},
		"a file of results that is not written": {"test", "--junit=" + dir + "/crt", testsOf(t, rules)},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(program(t), args...)
			cmd.Env = append(append(os.Environ(), anyPort...), env...)
			pipe := fullPipe(t)
			p := launch(t, cmd, func() error {
				cmd.Stdout, cmd.Stderr = pipe, pipe
				return cmd.Start()
			})
			p.waitForThreads()
			p.wantEndWithin(longestEnd)
		})
	}
}

// TestPipesAreNoCertificates starts the program with pipes in the place of files that
// hold certificates: it ends by itself and says why.
func TestPipesAreNoCertificates(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	fifo(t, pipe)
	for name, env := range map[string][]string{
		"certificate":   {"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + pipe, "GRPC_SERVER_TLS_KEY=" + pipe},
		"Redis":         {"REDIS_TLS=true", "REDIS_URL=127.0.0.1:1", "REDIS_TLS_CACERT=" + pipe},
		"control plane": {"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + pipe},
		"traces":        {"TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_CERTIFICATE=" + pipe},
		"traces, too":   {"TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=" + pipe},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program(t))
			cmd.Env = append(append(append(os.Environ(), anyPort...), "CONFIG_PATH="+writeRules(t, userRules(3))), env...)
			stop := time.AfterFunc(longestEnd, func() { _ = cmd.Process.Kill() })
			defer stop.Stop()
			text, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(text), pipe+": it is no regular file, allowed are regular files and links to them") {
				t.Errorf("it ends with %v:\n%s", err, text)
			}
		})
	}
}

// testsOf writes a file of tests for the rules in dir, and returns its name.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a_test.yaml")
	text := "rules: [" + dir + "]\ntests:\n- name: a\n  domain: api\n  steps:\n  - send: 1\n    descriptors: [{user: x}]\n"
	testenv.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// waitForThreads waits until the program sleeps, so that it waits for what hangs.
func (p *process) waitForThreads() {
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

// TestRulesThatBecomeAPipe replaces the rules of a server by a pipe, on which a read
// would never return, and the certificate by another.
func TestRulesThatBecomeAPipe(t *testing.T) {
	rules := writeRules(t, userRules(3))
	path := filepath.Join(rules, "rules.yaml")
	authority := testenv.NewAuthority(t)
	certificate, key := authority.Issue(t, "localhost")
	write(t, rules+"/.tls/crt", string(certificate))
	write(t, rules+"/.tls/key", string(key))
	w := startWeir(t, path, "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=1s",
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+rules+"/.tls/crt", "GRPC_SERVER_TLS_KEY="+rules+"/.tls/key")
	fifo(t, path)
	fifo(t, rules+"/.tls/crt")
	want := "read " + path + ": it is no regular file, allowed are regular files and links to them"
	testenv.Eventually(t, func() error {
		response, err := fetchBy(clientAt("127.0.0.2"), "http://"+w.debug+"/")
		if err == nil && !strings.Contains(response.body, want) {
			err = fmt.Errorf("the status page does not say %q:\n%s", want, response.body)
		}
		return err
	})
	response := testenv.Must(clientAt("127.0.0.2").Post("http://"+w.debug+"/-/reload", "", nil))(t)
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), want) {
		t.Errorf("reload: %d %s", response.StatusCode, body)
	}
	const look = 6 * time.Second // at the certificate comes every 5 s
	testenv.Pass(look)
	w.wantEndWithin(longestEnd)
}
