package testenv

import (
	"net"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnAddr returns an address of 127.0.0.1 that is reserved until the test ends:
// even while no program listens there, the system assigns its port to no other program.
// Programs that set SO_REUSEADDR, such as Redis and Go, can listen, stop, and
// listen again.
func OwnAddr(t testing.TB) string {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("looking for a free port: %v", os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { unix.Close(socket) })
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("looking for a free port: %v", os.NewSyscallError("bind", err))
	}
	// If this were set before Bind, the system would choose from only half of the ports.
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatalf("looking for a free port: %v", os.NewSyscallError("setsockopt", err))
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatalf("looking for a free port: %v", os.NewSyscallError("getsockname", err))
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
}
