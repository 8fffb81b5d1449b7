package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Check opens the parts of a server, and connects to Redis and to the control plane. It reads no rule
// files, binds no listener and serves nothing. The error lists all problems except Settings.Invalid.
// counters says where the counters are, or is empty if the store cannot be opened. tree has the rules
// from the control plane, or is nil if there are none.
func Check(ctx context.Context, o Options) (counters string, tree *descriptors.Tree, err error) {
	life := new(lifecycle)
	defer func() { err = errors.Join(err, life.stop(grace)) }()
	p, err := openParts(&o, life, func(bool) {})
	if p.store != nil && p.store.failover == nil {
		counters = "memory of each server, because REDIS_URL is not set"
	} else if p.store != nil && p.store.redis != nil {
		counters = "Redis at " + p.store.redisNames()
		if failed := p.store.redis.Ping(ctx); failed != nil {
			err = errors.Join(err, fmt.Errorf("redis at %s (see REDIS_URL): %w", p.store.redisNames(), failed))
		}
	}
	if o.Settings.XDS.Enabled() && o.Settings.XDS.ServerURL != "" && p.secrets != nil && o.Settings.Check() == nil {
		var failed error
		tree, failed = askControlPlane(ctx, o, life, p.secrets)
		err = errors.Join(err, failed)
	}
	return counters, tree, err
}

// askControlPlane returns the first rules that the control plane sends. It fails after 10 s without rules.
func askControlPlane(ctx context.Context, o Options, life *lifecycle, secrets *secrets) (*descriptors.Tree, error) {
	r := newRules(RuleOptions(o.Settings.Rules.Reading), func(iter.Seq[*limiter.Limit]) {}, func() {}, o.Logger, o.Registry)
	c, err := openControlPlane(o, life, secrets, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	ended := make(chan struct{})
	go func() { defer close(ended); c.run(ctx) }()
	defer func() { cancel(); <-ended }()
	for {
		switch link := c.client.Status(); {
		case r.tree.Load() != nil:
			return r.tree.Load(), nil
		case r.report().Problems != "":
			return nil, fmt.Errorf("rules from %s:\n%s", c.path, r.report().Problems)
		case link.Err != nil:
			return nil, fmt.Errorf("%s (see CONFIG_GRPC_XDS_SERVER_URL): %w", c.path, link.Err)
		case !pause(ctx, 20*time.Millisecond):
			return nil, fmt.Errorf("%s sends no rules for this node (see CONFIG_GRPC_XDS_NODE_ID)", c.path)
		}
	}
}
