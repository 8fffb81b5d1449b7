package conn

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// Kind is a kind of error, and its label in metrics.
type Kind string

// The kinds of errors of Redis.
const (
	KindTimeout    Kind = "timeout"    // no answer in time
	KindConnection Kind = "connection" // no connection, or a broken one
	KindNoScript   Kind = "noscript"   // Redis does not have the script; the call is repeated with its text
	KindReadOnly   Kind = "readonly"   // a replica, usually after a failover
	KindLoading    Kind = "loading"    // Redis has just started and loads its data
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
	if found, ok := errors.AsType[unfit](err); ok {
		return found.kind
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return classifyReply(reply)
	}
	network, ok := errors.AsType[net.Error](err)
	if ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrPoolTimeout) {
		return KindTimeout
	}
	return KindConnection
}

// noCluster is part of the error with which a Redis outside of a cluster refuses CLUSTER INFO.
const noCluster = "cluster support disabled"

// classifyReply returns the kind of an error reply. Before Redis 7, the code of an error inside
// a script may be anywhere in the text.
func classifyReply(err redis.Error) Kind {
	for _, c := range []struct {
		kind  Kind
		codes string
	}{
		{KindNoScript, "NOSCRIPT"},
		{KindReadOnly, "READONLY"},
		{KindLoading, "LOADING"},
		{KindOOM, "OOM"},
		{KindCluster, "CROSSSLOT MOVED ASK TRYAGAIN CLUSTERDOWN"},
		{KindAuth, "NOAUTH WRONGPASS NOPERM"},
	} {
		for _, code := range strings.Fields(c.codes) {
			if redis.HasErrorPrefix(err, code) || strings.Contains(err.Error(), "-"+code+" ") {
				return c.kind
			}
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, noCluster):
		return KindCluster
	case strings.Contains(text, "The user executing the script can't"), strings.Contains(text, "ACL failure in script"):
		return KindAuth // a forbidden command or key in a script, with the texts before and since Redis 7.0
	}
	return KindOther
}

// Answered reports whether Redis replied, possibly with an error.
func Answered(err error) bool {
	return err == nil || !slices.Contains([]Kind{KindTimeout, KindConnection}, Classify(err))
}

// isRefused reports whether err is a refused login, after which Redis has executed nothing.
func isRefused(err error) bool {
	return err != nil && (redis.IsAuthError(err) || strings.Contains(err.Error(), "failed to authenticate"))
}

// cleanError is an error with a text that is safe to show.
type cleanError struct {
	error
	text string
}

func (e cleanError) Error() string { return e.text }

func (e cleanError) Unwrap() error { return e.error }

// plainly replaces phrases of go-redis about sentinels with plain ones.
var plainly = strings.NewReplacer(
	"redis: all sentinels specified in configuration are unreachable", "asking the sentinels for the primary",
	"redis: nil", "the sentinels know no primary of this name")

// clean returns err with a text of one line of at most a few hundred bytes, without passwords. It
// returns nil if err is nil. The original text may come from anything that listens at the address of
// Redis, and a Redis without AUTH repeats the arguments of AUTH in its error.
func (c *Client) clean(err error) error {
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(plainly.Replace(err.Error()), ", with args beginning with")
	// The longest password goes first, because it may contain a shorter one.
	longestFirst := func(a, b string) int { return cmp.Compare(len(b), len(a)) }
	for _, secret := range slices.SortedFunc(slices.Values(*c.secrets.Load()), longestFirst) {
		text = strings.ReplaceAll(text, secret, "***")
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) > 400 {
		text = strings.ToValidUTF8(text[:400], "") + "..."
	}
	return cleanError{err, text}
}
