package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// unfit is the reason why a Redis that replies cannot keep counters.
type unfit struct {
	kind   Kind
	reason string
}

func (u unfit) Error() string { return u.reason }

var (
	errReplica     = unfit{KindReadOnly, "redis is a read-only replica; use the address of its primary"}
	errCluster     = unfit{KindCluster, "redis runs in cluster mode; set REDIS_TYPE=CLUSTER"}
	errClusterDown = unfit{KindCluster, "the Redis cluster is down or does not serve all slots"}
	errNoCluster   = unfit{KindCluster, "redis does not run in cluster mode; set REDIS_TYPE=SINGLE or SENTINEL"}
)

// Probe returns nil if every Redis that keeps counters is a primary of the configured type and
// write succeeds on each. write gets key or, in a cluster, key with a hash tag for the primary.
func (c *Client) Probe(ctx context.Context, key string, write func(ctx context.Context, key string) error) error {
	cluster := c.cluster()
	if cluster == nil {
		if err := check(ctx, c.Current(), false); err != nil {
			return err
		}
		return write(ctx, key)
	}
	var asked atomic.Bool
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
		asked.Store(true)
		if err := check(ctx, primary, true); err != nil {
			return err
		}
		for n := 0; ctx.Err() == nil; n++ { // a few tags suffice to find a key of any primary
			tagged := fmt.Sprintf("%s{%d}", key, n)
			if found, err := cluster.MasterForKey(ctx, tagged); err != nil {
				return err
			} else if found == primary {
				return write(ctx, tagged)
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

// check returns nil if a Redis is a primary and not in a cluster or, if clustered is set, in a
// cluster that serves all slots. It ignores information that this Redis lacks or refuses to give.
func check(ctx context.Context, server redis.UniversalClient, clustered bool) error {
	info, err := server.Info(ctx).Result()
	has := func(field string) bool { return slices.Contains(strings.Fields(info), field) }
	switch {
	case has("cluster_enabled:1") && !clustered:
		return errCluster
	case has("role:slave") && has("slave_read_only:1"):
		return errReplica
	case err == nil && clustered:
		info, err = server.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = errClusterDown
		}
	}
	if _, ok := errors.AsType[redis.Error](err); ok {
		return nil // the user lacks a permission that decisions do not need
	}
	return err
}
