package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/redisconn"
)

// Board is what processes share in the main Redis beside the counters: records, which it
// does not understand (records.go), and who is there, whose reports are wanted, and
// whether counters were reset (servers.go). It has connections of its own, so that no
// decision waits for it. Each call is bounded by its context, and by a second, or
// OpTimeout if it is longer. All errors but ErrFull wrap limiter.ErrUnavailable: whether the
// call had an effect is not known then.
type Board struct {
	client           *redisconn.Client
	records, servers string // keys of hashes
	reports          string // begins the keys of reports
}

// OpenBoard returns the board of all processes with the same Redis and the same prefix of
// keys. It does not connect.
func OpenBoard(main redisconn.Options, keyPrefix string) (*Board, error) {
	const least = time.Second // nobody is kept waiting for an answer by Envoy
	main.OpTimeout = max(cmp.Or(main.OpTimeout, redisconn.DefaultOpTimeout), least)
	client, err := redisconn.Open(main)
	if err != nil {
		return nil, err
	}
	return &Board{
		client:  client,
		records: limiter.SharedKey(keyPrefix, "exceptions"),
		servers: limiter.SharedKey(keyPrefix, "servers"),
		reports: limiter.SharedKey(keyPrefix, "report:"),
	}, nil
}

// Close ends all connections, and calls that wait.
func (b *Board) Close() error { return b.client.Close() }

// Scripts of the board. They are sent whole: calls are few, and Redis may have forgotten
// them.
var (
	addScript     = luaText("add")
	removeScript  = luaText("remove")
	restoreScript = luaText("restore")
	pollScript    = luaText("poll")
	wantScript    = luaText("want")
	resetScript   = luaText("reset")
)

// eval runs a script on one key.
func (b *Board) eval(ctx context.Context, script, key string, args ...any) *redis.Cmd {
	return b.client.Eval(ctx, script, []string{key}, args...)
}

// failed returns what a caller learns of an error of go-redis, and looks for the primary
// anew if another one may be it.
func (b *Board) failed(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	cluster, _ := b.client.UniversalClient.(*redis.ClusterClient)
	switch kind := classify(err); {
	case cluster != nil && (kind == kindConnection || kind == kindTimeout || kind == kindReadOnly || kind == kindCluster):
		cluster.ReloadState(context.Background()) // in the background, and not too often
	case cluster == nil && kind == kindReadOnly:
		b.client.Drop()
	}
	return unavailable(b.client.Clean(err))
}

// newName returns a name that no other process chooses.
func newName() string { return rand.Text() }
