package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// unfit is why a Redis that answers cannot decide.
type unfit struct {
	kind   kind
	reason string
}

func (u unfit) Error() string { return u.reason }

var (
	errReplica     = unfit{kindReadOnly, "redis is a read-only replica; the address must be that of its primary"}
	errCluster     = unfit{kindCluster, "redis runs in cluster mode; set REDIS_TYPE to CLUSTER"}
	errClusterDown = unfit{kindCluster, "the Redis cluster is down or does not serve all slots"}
	errNoCluster   = unfit{kindCluster, "redis does not run in cluster mode; set REDIS_TYPE to SINGLE or SENTINEL"}
)

// Ping tells whether Redis can decide, within Options.OpTimeout and ctx: it has
// the script, lets us run it, and is a primary; of a cluster, every primary is
// asked, and all slots are served. It writes nothing.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.main.opTimeout)
	defer cancel()
	for _, b := range s.backends() {
		if err := b.ping(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pingInTime is ping within Options.OpTimeout.
func (b *backend) pingInTime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.opTimeout)
	defer cancel()
	return b.ping(ctx)
}

func (b *backend) ping(ctx context.Context) error {
	err := b.probe(ctx)
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		b.outage.observe(err) // else nobody waited for the outcome
	}
	if err != nil {
		b.reconnect(err)
		return unavailable(err)
	}
	return nil
}

func (b *backend) probe(ctx context.Context) error {
	cluster, ok := b.client.(*redis.ClusterClient)
	if !ok {
		return b.probeNode(ctx, b.client, false)
	}
	var asked atomic.Bool
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		asked.Store(true)
		return b.probeNode(ctx, node, true)
	})
	switch {
	case err != nil && strings.Contains(err.Error(), noCluster):
		return errNoCluster
	case err == nil && !asked.Load():
		return errClusterDown // no node has slots
	default:
		return err
	}
}

// probeNode tells whether one server can decide, and is of a cluster or not.
func (b *backend) probeNode(ctx context.Context, node redis.UniversalClient, clustered bool) error {
	if _, err := b.run(ctx, node, newBatch(decideScript, room{})); err != nil {
		return err
	}
	// A script that touches no key runs on replicas and in clusters, too.
	info, err := node.Info(ctx).Result()
	if err == nil {
		err = fit(info, clustered)
	}
	if err == nil && clustered {
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

// fit reads the answer to INFO. What it does not tell is not held against Redis.
func fit(info string, clustered bool) error {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	switch {
	case fields["cluster_enabled"] == "1" && !clustered:
		return errCluster
	case fields["role"] == "slave" && fields["slave_read_only"] == "1":
		return errReplica
	}
	return nil
}
