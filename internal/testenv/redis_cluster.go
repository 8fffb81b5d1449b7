package testenv

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

const slots = 16384

// RedisCluster starts a cluster of primaries, which share the slots evenly in
// order, and of replicas, one for each of the first primaries. It returns all nodes
// when they serve, with the primaries first. args are further options of each node.
func RedisCluster(t testing.TB, primaries, replicas int, args ...string) []*Redis {
	t.Helper()
	nodes := make([]*Redis, primaries+replicas)
	for i := range nodes {
		nodes[i] = RedisServer(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, args...)...)
		nodes[i].Command("cluster", "set-config-epoch", strconv.Itoa(i+1))
	}
	for i, n := range nodes[:primaries] {
		addSlots := []string{"cluster", "addslots"}
		for slot := i * slots / primaries; slot < (i+1)*slots/primaries; slot++ {
			addSlots = append(addSlots, strconv.Itoa(slot))
		}
		n.Command(addSlots...)
	}
	for _, n := range nodes[1:] {
		host, port, _ := net.SplitHostPort(n.addr)
		nodes[0].Command("cluster", "meet", host, port)
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

// hasBus reports whether a node at addr can have a cluster bus. The port of the bus is the
// port of the node plus 10,000. It must be valid, and above the ports that the system assigns.
func hasBus(addr string) bool {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return n > 51_000 && n <= 1<<16-1-10_000
}
