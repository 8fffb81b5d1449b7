package xds

import (
	"context"
	"net"
	"syscall"
	"testing"

	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/testenv"
)

// TestProbes checks the socket options that make the system detect that a peer is gone.
func TestProbes(t *testing.T) {
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	conn := testenv.Must((&net.Dialer{KeepAlive: -1}).Dial("tcp", listener.Addr().String()))(t)
	defer conn.Close()
	_, _, err := keepAlive{insecure.NewCredentials()}.ClientHandshake(context.Background(), "", conn)
	testenv.OK(t, err)
	raw := testenv.Must(conn.(*net.TCPConn).SyscallConn())(t)
	for name, option := range map[string][3]int{ // level, option, value
		"on": {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1}, "seconds until the first": {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 30},
		"seconds between two": {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 10}, "without answer": {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
	} {
		got := 0
		_ = raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), option[0], option[1]) })
		if err != nil || got != option[2] {
			t.Errorf("%s: got %d, want %d (error: %v)", name, got, option[2], err)
		}
	}
}
