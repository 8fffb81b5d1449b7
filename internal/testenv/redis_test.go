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

func TestRedisClusterServes(t *testing.T) {
	if nodes := testenv.RedisCluster(t, 3, 1); len(nodes) != 4 {
		t.Errorf("%d nodes, want 4", len(nodes))
	}
}

func TestRedisSentinelKnowsTheReplica(t *testing.T) {
	primary := testenv.RedisServer(t)
	testenv.RedisReplica(t, primary)
	testenv.RedisSentinel(t, primary)
}
