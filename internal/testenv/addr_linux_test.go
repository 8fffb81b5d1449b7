package testenv

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An address stays reserved while no program listens there, such as while a Redis is
// stopped: only programs that set SO_REUSEADDR can bind it.
func TestAddressIsKept(t *testing.T) {
	addr := OwnAddr(t)
	stranger := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if refused := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
		}); refused != nil {
			return refused
		}
		return err
	}}
	for _, when := range []string{"before it is used", "after that"} {
		if l, err := stranger.Listen(t.Context(), "tcp", addr); err == nil {
			l.Close()
			t.Fatalf("another took the address %s", when)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("listening %s: %v", when, err)
		}
		l.Close()
	}
}
