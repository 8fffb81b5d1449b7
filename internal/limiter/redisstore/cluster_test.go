package redisstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// startCluster starts one and returns options for a store on it, and a client.
func startCluster(t testing.TB, replicas int, args ...string) (Options, *redis.ClusterClient, []*testenv.Redis) {
	t.Helper()
	nodes := testenv.RedisCluster(t, 3, replicas, args...)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: long})
	t.Cleanup(func() { admin.Close() })
	return Options{Type: Cluster, URL: strings.Join(addrs, ","), OpTimeout: long}, admin, nodes
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
		o.Now = now
		return open(t, o)
	})
}

// TestBucketsOfAClusterAreExact compares requests within a bucket with the
// model, as on a single Redis.
func TestBucketsOfAClusterAreExact(t *testing.T) {
	o, _, _ := startCluster(t, 0)
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
