package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

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
			wantNoStart(t, strings.Fields(strings.ReplaceAll(env, "PIPE", pipe)), pipe+": it is not a regular file; use a regular file or a link to a regular file")
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
	want := "read " + path + ": it is not a regular file; use a regular file or a link to a regular file"
	testenv.Eventually(t, func() error {
		page, err := fetch("http://" + w.debug + "/")
		if err == nil && !strings.Contains(page.body, want) {
			err = fmt.Errorf("the status page does not say %q:\n%s", want, page.body)
		}
		return err
	})
	if a := testenv.Must(post(client, "http://"+w.debug+"/-/reload", "", ""))(t); a.status != 500 || !strings.Contains(a.body, want) {
		t.Errorf("reload: %d %s", a.status, a.body)
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

// withoutIPv6 makes the test's binary run its arguments as a program that finds
// no IPv6.
const withoutIPv6 = "WEIR_TEST_WITHOUT_IPV6"

// init takes the place of a program that would have to be built for this alone.
func init() { //nolint:gochecknoinits // TestMain is not of Linux alone
	if os.Getenv(withoutIPv6) != "" {
		fmt.Fprintln(os.Stderr, execWithoutIPv6(os.Args[1:]))
		os.Exit(1)
	}
}

// execWithoutIPv6 becomes the program, for which the kernel refuses to make
// sockets of IPv6 as one without IPv6 does. It returns what went wrong.
func execWithoutIPv6(args []string) error {
	runtime.LockOSThread() // the filter is this thread's
	const (
		number = 0  // offset of the number of the system call
		family = 16 // and of the lower half of its first argument
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: family},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_INET6, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("setting the filter: %w", err)
	}
	return syscall.Exec(args[0], args, os.Environ())
}

func TestAllAddressesWithoutIPv6(t *testing.T) {
	t.Parallel()
	self := testenv.Must(os.Executable())(t)
	w := runWeir(t, []string{withoutIPv6 + "=1", "GRPC_HOST=::", "HOST=::", "DEBUG_HOST=::", "PROMETHEUS_ADDR=[::]:0"}, self, program(t))
	w.waitUntilHealthy()
	for name, addr := range map[string]string{"gRPC": w.grpc, "HTTP": w.http, "metrics": w.metrics} {
		if !strings.HasPrefix(addr, "0.0.0.0:") {
			t.Errorf("%s is at %s", name, addr)
		}
	}
	w.remaining("user", "alice")
}
