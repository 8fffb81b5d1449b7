package redis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// cluster is a Redis Cluster of three primaries.
type cluster struct {
	o     Options // options of a store on the cluster
	admin *redis.ClusterClient
	nodes []*testenv.Redis
}

// startCluster starts a cluster. Its timeout is long, so that a busy node is not considered dead.
func startCluster(t testing.TB, replicas int, args ...string) *cluster {
	t.Helper()
	nodes := testenv.RedisCluster(t, 3, replicas, append([]string{"--cluster-node-timeout", "30000"}, args...)...)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: long})
	t.Cleanup(func() { admin.Close() })
	return &cluster{Options{Main: Server{Type: conn.Cluster, Addr: strings.Join(addrs, ","), Timeout: long}}, admin, nodes}
}

// TestCluster runs the tests that can share a cluster, which takes seconds to start.
func TestCluster(t *testing.T) {
	c := startCluster(t, 0)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"suite", testStoreOnCluster},
		{"peek and reset", testCountersInSeveralPlaces},
		{"shared entries", func(t *testing.T, c *cluster) { testSharedEntries(t, c.o.Main) }},
		{"shared reports", func(t *testing.T, c *cluster) { testSharedReports(t, c.o.Main) }},
		{"ping", testPingAsksEachNode},
		{"rotations", testRotations},
		{"silent nodes", testSilentNodes},
		{"faults", testFaultsOfACluster}, // last, because it leaves slots on other nodes
	} {
		t.Run(test.name, func(t *testing.T) {
			c.flush(t)
			test.run(t, c)
		})
	}
}

// flush empties all nodes.
func (c *cluster) flush(t testing.TB) {
	t.Helper()
	testenv.OK(t, c.admin.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.FlushAll(ctx).Err()
	}))
}

// testStoreOnCluster runs the suite with the suite's keys, each in a slot of its own.
func testStoreOnCluster(t *testing.T, c *cluster) {
	o := c.o
	storetest.RunApart(t, func(t *testing.T, now func() time.Time) limiter.CounterStore {
		c.flush(t)
		o.Now = now
		return open(t, o)
	})
	// Requests within a bucket are decided as on a single Redis.
	c.flush(t)
	decided := storetest.Differential(t, func(t *testing.T, now func() time.Time) limiter.CounterStore {
		o.Now = now
		return tagged{open(t, o)}
	}, 1, 5000)
	if decided < 5000 {
		t.Errorf("only %d decisions", decided)
	}
}

// tagged puts all counters of a player into one bucket.
type tagged struct{ limiter.CounterStore }

func (s tagged) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	in := slices.Clone(hits)
	for i, h := range in {
		player, counter, _ := strings.Cut(string(h.Key), " counter ")
		in[i].Key = []byte("{" + player + "}" + counter)
		if h.Reservation != nil {
			in[i].Reservation = []byte("{" + player + "}" + string(h.Reservation))
		}
	}
	return s.CounterStore.Decide(ctx, in, out)
}

// TestNodeOfAClusterIsReplaced stops a node whose replica takes over only on command. Otherwise
// the replica could take over before the test sends a request.
func TestNodeOfAClusterIsReplaced(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, "--cluster-replica-no-failover", "yes")
	s, nodes := open(t, c.o), c.nodes
	const key = "{b}counter" // slot 3300, of the first node
	mustAsk(t, s, key, perYear)
	nodes[0].Stop()
	if _, err := ask(context.Background(), s, key, perYear); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("got error %v of a dead node, want one that wraps %v", err, limiter.ErrUnavailable)
	}
	do(t, connect(t, nodes[3]), "cluster", "failover", "takeover")
	testenv.Until(t, "the replica decides", func() bool {
		_, err := ask(t.Context(), s, key, perYear)
		return err == nil
	})
	testenv.Until(t, "all nodes answer", func() bool { return s.Ping(context.Background()) == nil })
}
