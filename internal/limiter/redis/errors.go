package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// kind is a kind of error, as the metric has it.
type kind string

const (
	kindTimeout    kind = "timeout"    // no answer in time
	kindConnection kind = "connection" // no connection, or a broken one
	kindNoScript   kind = "noscript"   // Redis had lost the script; not an error by itself
	kindReadOnly   kind = "readonly"   // a replica, usually after a failover
	kindLoading    kind = "loading"    // Redis has just started and reads its data
	kindOOM        kind = "oom"        // maxmemory is reached
	kindCluster    kind = "cluster"    // a cluster that is down or moves its slots; or what is none, or should be none
	kindAuth       kind = "auth"       // user or password is wrong, or may not do this
	kindQueueFull  kind = "queue_full" // too much waits; Redis was not asked
	kindOther      kind = "other"
)

var kinds = []kind{
	kindTimeout, kindConnection, kindNoScript, kindReadOnly, kindLoading, kindOOM, kindCluster, kindAuth, kindQueueFull, kindOther,
}

// classify returns the kind of an error of go-redis or of a probe.
func classify(err error) kind {
	var found unfit
	if errors.As(err, &found) {
		return found.kind
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return classifyReply(reply)
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &network) && network.Timeout() {
		return kindTimeout
	}
	return kindConnection
}

// noCluster is how a Redis refuses to be asked about its cluster.
const noCluster = "cluster support disabled"

// notPermitted and notPermittedNow are how Redis refuses a command of a script, or its
// keys, to a user: up to 7.0, and since then, as Valkey does. They give no code for it.
const (
	notPermitted    = "The user executing the script can't"
	notPermittedNow = "ACL failure in script"
)

// classifyReply returns the kind of an error that Redis replied. Before Redis 7,
// the code of an error inside a script is somewhere in the text.
func classifyReply(err redis.Error) kind {
	for _, c := range []struct {
		code string
		kind kind
	}{
		{"NOSCRIPT", kindNoScript},
		{"READONLY", kindReadOnly},
		{"LOADING", kindLoading},
		{"OOM", kindOOM},
		{"CROSSSLOT", kindCluster},
		{"MOVED", kindCluster},
		{"ASK", kindCluster},
		{"TRYAGAIN", kindCluster},
		{"CLUSTERDOWN", kindCluster},
		{"NOAUTH", kindAuth},
		{"WRONGPASS", kindAuth},
		{"NOPERM", kindAuth},
	} {
		if redis.HasErrorPrefix(err, c.code) || strings.Contains(err.Error(), "-"+c.code+" ") {
			return c.kind
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, noCluster):
		return kindCluster
	case strings.Contains(text, notPermitted), strings.Contains(text, notPermittedNow):
		return kindAuth
	}
	return kindOther
}

// unavailable wraps an error of go-redis for the callers of the store.
func unavailable(err error) error {
	return fmt.Errorf("%w: asking Redis: %w", limiter.ErrUnavailable, err)
}
