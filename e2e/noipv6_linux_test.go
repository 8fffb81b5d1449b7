package e2e

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/internal/testenv"
)

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
	const line = `"level":"warning","@message":"this machine has no IPv6; listening on IPv4 only","listeners":"gRPC HTTP debug metrics"`
	if log := w.output.String(); strings.Count(log, "no IPv6") != 1 || !strings.Contains(log, line) {
		t.Errorf("want one line with %s in the log:\n%s", line, log)
	}
	w.remaining("user", "alice")
}
