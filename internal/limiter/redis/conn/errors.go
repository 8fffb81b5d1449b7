package conn

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Kind is a kind of error, and its label in metrics.
type Kind string

// The kinds of errors of Redis.
const (
	KindTimeout    Kind = "timeout"    // no answer in time
	KindConnection Kind = "connection" // no connection, or a broken one
	KindNoScript   Kind = "noscript"   // Redis does not have the script, which is no failure of a call
	KindReadOnly   Kind = "readonly"   // a replica, usually after a failover
	KindLoading    Kind = "loading"    // Redis has just started and is reading its data
	KindOOM        Kind = "oom"        // maxmemory is reached
	KindCluster    Kind = "cluster"    // a cluster is down or moving slots, or the type of deployment is wrong
	KindAuth       Kind = "auth"       // wrong user or password, or a missing permission
	KindOther      Kind = "other"
)

// Kinds lists all kinds.
var Kinds = []Kind{
	KindTimeout, KindConnection, KindNoScript, KindReadOnly, KindLoading, KindOOM, KindCluster, KindAuth, KindOther,
}

// Classify returns the kind of an error of Send, Probe or a client of go-redis.
func Classify(err error) Kind {
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
		return KindTimeout
	}
	return KindConnection
}

// noCluster is part of the error with which a Redis outside a cluster refuses CLUSTER INFO.
const noCluster = "cluster support disabled"

// notPermitted and notPermittedNow are parts of the errors for a command or key inside a script
// that the user may not use, until and since Redis 7.0. These errors have no code of their own.
const (
	notPermitted    = "The user executing the script can't"
	notPermittedNow = "ACL failure in script"
)

// classifyReply returns the kind of an error that Redis replied. Before Redis 7, the code of an
// error inside a script may be anywhere in the text.
func classifyReply(err redis.Error) Kind {
	for _, c := range []struct {
		code string
		kind Kind
	}{
		{"NOSCRIPT", KindNoScript},
		{"READONLY", KindReadOnly},
		{"LOADING", KindLoading},
		{"OOM", KindOOM},
		{"CROSSSLOT", KindCluster},
		{"MOVED", KindCluster},
		{"ASK", KindCluster},
		{"TRYAGAIN", KindCluster},
		{"CLUSTERDOWN", KindCluster},
		{"NOAUTH", KindAuth},
		{"WRONGPASS", KindAuth},
		{"NOPERM", KindAuth},
	} {
		if redis.HasErrorPrefix(err, c.code) || strings.Contains(err.Error(), "-"+c.code+" ") {
			return c.kind
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, noCluster):
		return KindCluster
	case strings.Contains(text, notPermitted), strings.Contains(text, notPermittedNow):
		return KindAuth
	}
	return KindOther
}

// Answered reports whether Redis replied, possibly with an error.
func Answered(err error) bool {
	if err == nil {
		return true
	}
	kind := Classify(err)
	return kind != KindTimeout && kind != KindConnection
}

// isRefused reports whether Redis refused a login, so that it has executed nothing.
func isRefused(err error) bool {
	return err != nil && (redis.IsAuthError(err) || strings.Contains(err.Error(), "failed to authenticate"))
}
