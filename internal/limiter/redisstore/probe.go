package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// unfit is why a Redis that answers cannot decide.
type unfit struct {
	kind   kind
	reason string
}

func (u unfit) Error() string { return u.reason }

var (
	errReplica = unfit{kindReadOnly, "redis is a read-only replica; the address must be that of its primary"}
	errCluster = unfit{kindCluster, "redis runs in cluster mode, which is not supported; one primary is"}
)

// Ping tells whether Redis can decide, within Options.OpTimeout and ctx: it has
// the script, lets us run it, and is a primary of its own. It writes nothing.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opTimeout)
	defer cancel()
	err := s.probe(ctx)
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.outage.observe(err) // else nobody waited for the outcome
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

func (s *Store) probe(ctx context.Context) error {
	if _, err := s.evalsha(ctx, new(batch)); err != nil {
		return err
	}
	// A script that touches no key runs on replicas and in clusters, too.
	info, err := s.client.Info(ctx).Result()
	if reply := redis.Error(nil); errors.As(err, &reply) {
		return nil // a user who may not ask this can decide all the same
	}
	if err != nil {
		return err
	}
	return fit(info)
}

// fit reads the answer to INFO. What it does not tell is not held against Redis.
func fit(info string) error {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	switch {
	case fields["cluster_enabled"] == "1":
		return errCluster
	case fields["role"] == "slave" && fields["slave_read_only"] == "1":
		return errReplica
	}
	return nil
}
