package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// startCluster starts one and returns options for a store on it, and a client. No
// node takes another for dead who is only slow.
func startCluster(t testing.TB, replicas int, args ...string) (Options, *redis.ClusterClient, []*testenv.Redis) {
	t.Helper()
	nodes := testenv.RedisCluster(t, 3, replicas, append([]string{"--cluster-node-timeout", "30000"}, args...)...)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: long})
	t.Cleanup(func() { admin.Close() })
	return Options{Main: Server{Type: Cluster, Addr: strings.Join(addrs, ","), Timeout: long}}, admin, nodes
}

// flush empties all nodes.
func flush(t testing.TB, admin *redis.ClusterClient) {
	t.Helper()
	if err := admin.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.FlushAll(ctx).Err()
	}); err != nil {
		t.Fatal(err)
	}
}

// TestStoreOnCluster runs the suite with its own keys, which lie on as many
// slots as there are keys.
func TestStoreOnCluster(t *testing.T) {
	o, admin, _ := startCluster(t, 0)
	storetest.RunApart(t, func(t *testing.T, now func() time.Time) limiter.Store {
		flush(t, admin)
		o := o
		o.Now, o.OneClock = now, true
		return open(t, o)
	})
	// Requests within a bucket are decided as on a single Redis.
	flush(t, admin)
	decided := storetest.Differential(t, func(t *testing.T, now func() time.Time) limiter.Store {
		o.Now, o.OneClock = now, true
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

// TestClusterIsNeverAskedAcrossSlots lets tenants share two limits and have two
// of their own, all with hash tags.
func TestClusterIsNeverAskedAcrossSlots(t *testing.T) {
	o, admin, nodes := startCluster(t, 0)
	reg := prometheus.NewRegistry()
	o.Registerer = reg
	s := open(t, o)
	keys, err := limiter.Keys{}.InBuckets()
	if err != nil {
		t.Fatal(err)
	}
	hour, day := storetest.Must(limiter.Spec{RequestsPerUnit: 40, Unit: limiter.Year}), storetest.Must(limiter.Spec{RequestsPerUnit: 1000, Unit: limiter.Year, UnitMultiplier: 2})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			var hits []limiter.Hit
			for _, tenant := range []string{"shared", fmt.Sprint("tenant ", i%20)} {
				for _, l := range []*limiter.Limit{hour, day} {
					entries := []limiter.Entry{{Key: "tenant", Value: tenant}, {Key: "path", Value: "/"}}
					hits = append(hits, limiter.Hit{Limit: l, Key: keys.Append(nil, "api", entries, nil, l), Cost: 1})
				}
			}
			denied, err := s.Decide(context.Background(), hits, make([]limiter.Decision, len(hits)))
			if err != nil {
				t.Errorf("Decide: %v", err)
			} else if !denied {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 40 {
		t.Errorf("%d requests admitted, want 40", n)
	}
	if n := value(t, reg, "weir_redis_errors_total", kindCluster); n != 0 {
		t.Errorf("%v errors of the cluster", n)
	}
	var mutex sync.Mutex // of what the nodes report at the same time
	used, loaded := int64(0), 0
	if err := admin.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, "*").Result()
		if err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		if len(keys) > 0 {
			loaded++
		}
		for _, key := range keys {
			short, err := node.Get(ctx, key).Int64()
			if err != nil {
				return err
			}
			used += short % million
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if used != 4*40 {
		t.Errorf("all counters hold %d together, want 4 for each of the 40 requests admitted", used)
	}
	if loaded != len(nodes) {
		t.Errorf("counters are on %d of %d nodes", loaded, len(nodes))
	}
}

// TestSlotMoves asks for one counter while its slot moves to another node.
func TestSlotMoves(t *testing.T) {
	o, _, nodes := startCluster(t, 0)
	s := open(t, o)
	const key = "{a}counter" // slot 15495, of the last node
	slot := limiter.Slot([]byte(key))
	from, to := connect(t, nodes[2]), connect(t, nodes[0])
	fromID, toID := do(t, from, "cluster", "myid"), do(t, to, "cluster", "myid")
	host, port, _ := net.SplitHostPort(nodes[0].Addr())

	want := int64(0)
	ask := func(when string) {
		t.Helper()
		for range 3 {
			want++
			if d := mustAsk(t, s, key, perYear); d.Used != want {
				t.Errorf("%s: %d used, want %d", when, d.Used, want)
			}
		}
	}
	ask("before")
	do(t, to, "cluster", "setslot", slot, "importing", fromID)
	do(t, from, "cluster", "setslot", slot, "migrating", toID)
	ask("while the slot is to move")
	do(t, from, "migrate", host, port, key, 0, 5000)
	ask("while only the counter has moved") // ASK
	for _, n := range nodes {
		do(t, connect(t, n), "cluster", "setslot", slot, "node", toID)
	}
	ask("after the slot has moved") // MOVED
}

// TestNodeOfAClusterIsReplaced has a replica that takes over when it is told to,
// and not as soon as its node is dead: that could be before anybody asks.
func TestNodeOfAClusterIsReplaced(t *testing.T) {
	t.Parallel()
	o, _, nodes := startCluster(t, 1, "--cluster-replica-no-failover", "yes")
	s := open(t, o)
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
