package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// Board is what processes share in the main Redis beside the counters: records, which it
// does not understand (records.go), and who is there, whose reports are wanted, and
// whether counters were reset (servers.go). It has connections of its own, so that no
// decision waits for it. Each call is bounded by its context, and by a second, or
// OpTimeout if it is longer. All errors but ErrFull wrap limiter.ErrUnavailable: whether the
// call had an effect is not known then.
type Board struct {
	client           *client
	records, servers string // keys of hashes
	reports          string // begins the keys of reports
}

// OpenBoard returns the board of all processes with the same Redis and the same prefix of
// keys. It does not connect.
func OpenBoard(main Server, keyPrefix string) (*Board, error) {
	const least = time.Second // nobody is kept waiting for an answer by Envoy
	main.OpTimeout = max(cmp.Or(main.OpTimeout, DefaultOpTimeout), least)
	client, err := newClient(main)
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
func (b *Board) Close() error { return b.client.close() }

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
	return b.client.current().Eval(ctx, script, []string{key}, args...)
}

// failed returns what a caller learns of an error of go-redis, and looks for the primary
// anew if another one may be it.
func (b *Board) failed(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	b.client.lookAgain(err)
	return unavailable(b.client.clean(err))
}

// newName returns a name that no other process chooses.
func newName() string { return rand.Text() }
