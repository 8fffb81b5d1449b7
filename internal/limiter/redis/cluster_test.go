package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// cluster is three nodes.
type cluster struct {
	o     Options // of a store on it
	admin *redis.ClusterClient
	nodes []*testenv.Redis
}

// startCluster starts one. No node takes another for dead who is only slow.
func startCluster(t testing.TB, replicas int, args ...string) *cluster {
	t.Helper()
	nodes := testenv.RedisCluster(t, 3, replicas, append([]string{"--cluster-node-timeout", "30000"}, args...)...)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: long})
	t.Cleanup(func() { admin.Close() })
	return &cluster{Options{Main: Server{Type: Cluster, Addr: strings.Join(addrs, ","), Timeout: long}}, admin, nodes}
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
		{"shared exceptions", func(t *testing.T, c *cluster) { testSharedExceptions(t, c.o.Main) }},
		{"shared reports", func(t *testing.T, c *cluster) { testSharedReports(t, c.o.Main) }},
		{"ping", testPingAsksEachNode},
		{"password", testPasswordOfACluster},
		{"faults", testFaultsOfACluster}, // which leave slots where they moved
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

// testStoreOnCluster runs the suite with its own keys, which lie on as many
// slots as there are keys.
func testStoreOnCluster(t *testing.T, c *cluster) {
	o := c.o
	storetest.RunApart(t, func(t *testing.T, now func() time.Time) limiter.Store {
		c.flush(t)
		o.Now = now
		return open(t, o)
	})
	// Requests within a bucket are decided as on a single Redis.
	c.flush(t)
	decided := storetest.Differential(t, func(t *testing.T, now func() time.Time) limiter.Store {
		o.Now = now
		return tagged{open(t, o)}
	}, 1, 5000)
	if decided < 5000 {
		t.Errorf("only %d decisions", decided)
	}
}

// tagged puts all counters of a player into one bucket.
type tagged struct{ limiter.Store }

func (s tagged) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	in := slices.Clone(hits)
	for i, h := range in {
		player, counter, _ := strings.Cut(string(h.Key), " counter ")
		in[i].Key = []byte("{" + player + "}" + counter)
	}
	return s.Store.Decide(ctx, in, out)
}

// TestNodeOfAClusterIsReplaced has a replica that takes over when it is told to,
// and not as soon as its node is dead: that could be before anybody asks.
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
		_, err := ask(context.Background(), s, key, perYear)
		return err == nil
	})
	testenv.Until(t, "all nodes answer", func() bool { return s.Ping(context.Background()) == nil })
}

// testPasswordOfACluster has many requests share pipelines that the nodes refuse, because the
// password is wrong, or is taken away: each learns of it, and nobody of the password.
func testPasswordOfACluster(t *testing.T, c *cluster) {
	for _, n := range c.nodes {
		admin := connect(t, n)
		do(t, admin, "acl", "setuser", "weir", "reset", "on", ">right", "~*", "+@all")
		t.Cleanup(func() { do(t, admin, "acl", "deluser", "weir") })
	}
	askAll := func(s *store) (failed int) {
		var wg sync.WaitGroup
		var errs [100]error
		for i := range errs {
			wg.Go(func() { _, errs[i] = ask(t.Context(), s, fmt.Sprintf("{%d}", i), perYear) })
		}
		wg.Wait()
		for _, err := range errs {
			if err == nil {
				continue
			}
			failed++
			if !errors.Is(err, limiter.ErrUnavailable) || classify(err) != kindAuth || strings.Contains(err.Error(), "swordfish") {
				t.Errorf("error %v of kind %s, want kind %s", err, classify(err), kindAuth)
			}
		}
		return failed
	}
	o := c.o
	o.Main.Username, o.Main.Password = "weir", "swordfish"
	if n := askAll(open(t, o)); n != 100 {
		t.Errorf("%d of 100 requests fail with a wrong password", n)
	}
	o.Main.Password = "right"
	s := open(t, o)
	if n := askAll(s); n != 0 {
		t.Errorf("%d requests fail with the right password", n)
	}
	for _, n := range c.nodes { // the nodes are known by now, and asked in pipelines
		admin := connect(t, n)
		do(t, admin, "acl", "setuser", "weir", "resetpass", ">swordfish")
		do(t, admin, "client", "kill", "user", "weir")
	}
	if n := askAll(s); n != 100 {
		t.Errorf("%d of 100 requests fail after the password was changed", n)
	}
}

func TestClusterThatCannotDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		kind kind
	}{
		{"no cluster", nil, kindCluster},
		{"no slots", []string{"--cluster-enabled", "yes"}, kindCluster},
		{"password", []string{"--cluster-enabled", "yes", "--requirepass", "right"}, kindAuth},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Options{Main: Server{Type: Cluster, Addr: testenv.RedisServer(t, c.args...).Addr(), Password: "swordfish", Timeout: long}})
			for what, err := range map[string]error{"Decide": mustFail(t, s), "Ping": s.Ping(context.Background())} {
				if !errors.Is(err, limiter.ErrUnavailable) || classify(err) != c.kind || strings.Contains(err.Error(), "swordfish") {
					t.Errorf("%s: error %v of kind %s, want kind %s", what, err, classify(err), c.kind)
				}
			}
		})
	}
}
