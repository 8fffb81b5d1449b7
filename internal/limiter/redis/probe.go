package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// unfit is why a Redis that answers cannot decide.
type unfit struct {
	kind   kind
	reason string
}

func (u unfit) Error() string { return u.reason }

var (
	errReplica     = unfit{kindReadOnly, "redis is a read-only replica; use the address of its primary"}
	errCluster     = unfit{kindCluster, "redis runs in cluster mode; set REDIS_TYPE=CLUSTER"}
	errClusterDown = unfit{kindCluster, "the Redis cluster is down or does not serve all slots"}
	errNoCluster   = unfit{kindCluster, "redis does not run in cluster mode; set REDIS_TYPE=SINGLE or SENTINEL"}
)

// Ping returns nil if Redis can decide, within the Timeout of Options.Main and ctx: it is a
// primary and lets us count, for which a counter of Ping's own is charged that
// expires within a second. Of a cluster, every primary must answer, and all slots
// be served. A Redis that is full can decide: it still denies.
func (s *store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.main.client.server.Timeout)
	defer cancel()
	for _, b := range s.backends() {
		if err := b.ping(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *backend) ping(ctx context.Context) error {
	err := b.client.clean(b.probe(ctx))
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		b.outage.observe(err) // unless the caller canceled
	}
	if err != nil {
		b.client.lookAgain(err)
		return unavailable(err)
	}
	return nil
}

func (b *backend) probe(ctx context.Context) error {
	cluster := b.client.cluster()
	if cluster == nil {
		if err := probeNode(ctx, b.client.current(), false); err != nil {
			return err
		}
		return b.probeCounter(ctx, b.probeKey)
	}
	var asked atomic.Bool
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		asked.Store(true)
		if err := probeNode(ctx, node, true); err != nil {
			return err
		}
		for n := 0; ctx.Err() == nil; n++ { // tags reach every node soon
			key := fmt.Sprintf("%s{%d}", b.probeKey, n)
			if on, err := cluster.MasterForKey(ctx, key); err != nil {
				return err
			} else if on == node {
				return b.probeCounter(ctx, key)
			}
		}
		return ctx.Err()
	})
	switch {
	case err != nil && strings.Contains(err.Error(), noCluster):
		return errNoCluster
	case err == nil && !asked.Load():
		return errClusterDown // no node has slots
	}
	return err
}

// probeNode checks that one server is a primary, and in a cluster or not as clustered says.
func probeNode(ctx context.Context, node redis.UniversalClient, clustered bool) error {
	info, err := node.Info(ctx).Result()
	// What is missing in the answer is no reason.
	has := func(field string) bool { return slices.Contains(strings.Fields(info), field) }
	switch {
	case has("cluster_enabled:1") && !clustered:
		return errCluster
	case has("role:slave") && has("slave_read_only:1"):
		return errReplica
	case err == nil && clustered:
		info, err = node.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = errClusterDown
		}
	}
	if reply := redis.Error(nil); errors.As(err, &reply) {
		return nil // a user who may not ask this can decide all the same
	}
	return err
}

// probeLimit is the limit of the counter that Ping charges, too high to be reached. Its
// window begins with the first charge, so that the second is surely in the same window.
var probeLimit = limiter.MustLimit(limiter.Spec{RequestsPerUnit: math.MaxUint32, Unit: limiter.Second, Algorithm: limiter.FirstHit})

// probeCounter charges a counter as requests do, a new one and then an existing one,
// and gives both charges back. So it tries every command of the scripts but
// INCRBY, which they can do without, and both EVAL and EVALSHA.
func (b *backend) probeCounter(ctx context.Context, key string) error {
	for _, step := range []struct {
		command string
		hit     limiter.Hit
	}{
		{"evalsha", limiter.Hit{Cost: 1}}, {"eval", limiter.Hit{Cost: 1}}, {"evalsha", limiter.Hit{Cost: 2, Refund: true}},
	} {
		step.hit.Limit, step.hit.Key = probeLimit, []byte(key)
		one := newBatch(0, 1)
		one.add([]limiter.Hit{step.hit}, false)
		reply, err := newReply(b.run(ctx, b.client, []*batch{one}, step.command)[0], one)
		switch {
		case err != nil:
			return err
		case reply.refusal != nil && classify(reply.refusal) == kindOOM:
			return nil // it can deny
		case reply.refusal != nil:
			return reply.refusal
		}
	}
	return nil
}
