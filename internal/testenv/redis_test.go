package testenv_test

import (
	"net"
	"testing"

	"weir/internal/testenv"
)

func TestRedisServerStopsAndStartsOnTheSameAddress(t *testing.T) {
	r := testenv.RedisServer(t)
	for _, network := range []string{"tcp", "unix"} {
		addr := map[string]string{"tcp": r.Addr(), "unix": r.Socket()}[network]
		conn, err := net.Dial(network, addr)
		if err != nil {
			t.Fatalf("dialing a running server: %v", err)
		}
		conn.Close()
	}

	r.Stop()
	if conn, err := net.Dial("tcp", r.Addr()); err == nil {
		conn.Close()
		t.Fatal("a stopped server accepts connections")
	}

	r.Start()
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatalf("dialing a server that was started again: %v", err)
	}
	conn.Close()
}
