package testenv

import (
	"net"
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
	socket := Must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(socket) })
	OK(t, unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	// If this were set before Bind, the system would choose from only half of the ports.
	OK(t, unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	bound := Must(unix.Getsockname(socket))(t)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
}
