package testenv

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

const slots = 16384

// RedisCluster starts a cluster of so many primaries, which share the slots
// evenly in their order, and one replica for each of the first of them. It
// returns when all serve: primaries first. args are further options of each.
func RedisCluster(t testing.TB, primaries, replicas int, args ...string) []*Redis {
	t.Helper()
	nodes := make([]*Redis, primaries+replicas)
	for i := range nodes {
		_, bus, _ := net.SplitHostPort(OwnAddr(t))
		nodes[i] = RedisServer(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000",
		}, args...)...)
		nodes[i].bus = bus
		nodes[i].Command("cluster", "set-config-epoch", strconv.Itoa(i+1))
	}
	for i, n := range nodes[:primaries] {
		n.Command("cluster", "addslotsrange", strconv.Itoa(i*slots/primaries), strconv.Itoa((i+1)*slots/primaries-1))
	}
	for _, n := range nodes[1:] {
		host, port, _ := net.SplitHostPort(n.addr)
		nodes[0].Command("cluster", "meet", host, port, n.bus)
	}
	known := fmt.Sprintf("cluster_known_nodes:%d\r", len(nodes))
	allServe := func() bool {
		for _, n := range nodes {
			info := n.Command("cluster", "info")
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, known) {
				return false
			}
		}
		return true
	}
	Until(t, "the nodes of the cluster know each other", allServe)
	for i, n := range nodes[primaries:] {
		n.Command("cluster", "replicate", nodes[i].Command("cluster", "myid"))
		n.waitForPrimary()
	}
	Until(t, "the cluster serves", allServe)
	return nodes
}
