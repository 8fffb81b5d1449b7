package redis

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/queue"
)

// Shared is the data other than counters that servers with the same main Redis and key prefix
// share: exceptions and assigned amounts, see entries.go, and states of servers, reports and marks,
// which expire. It implements operators.Shared, and has its own connections, so that no decision
// waits for it. Each method sets a deadline, because in a cluster go-redis makes up to four attempts,
// with a time limit for each. Errors wrap limiter.ErrUnavailable. A failed call may have had an effect.
type Shared struct {
	client    *conn.Client
	keyPrefix string
}

// OpenShared returns the data that servers with this key prefix share in main. It does not connect.
func OpenShared(main Server, keyPrefix string) *Shared {
	main.Timeout = max(main.Timeout, time.Second) // the Timeout may be longer than for decisions, because no request of Envoy waits for it
	return &Shared{conn.Open(main, slog.New(slog.DiscardHandler)), keyPrefix}
}

// Close closes all connections. Calls in flight fail.
func (s *Shared) Close() error { return s.client.Close() }

func (s *Shared) key(name string) string { return limiter.SharedKey(s.keyPrefix, "", name) }

// ReportsWanted reports whether servers should report now, because Reports has asked them to.
func (s *Shared) ReportsWanted(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	found, err := s.client.Current().MGet(ctx, s.key("wanted")).Result() // MGET, because decisions need the permission for MGET anyway
	return len(found) == 1 && found[0] != nil, s.failed(err)
}

const (
	reportLasts   = 2 * time.Second // life of a report
	reportsAtOnce = 32              // reports in one reply, which must not exceed conn.MaxReply
)

// Report stores a report for the named server. The report expires after reportLasts.
func (s *Shared) Report(ctx context.Context, server string, report []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	return s.store(ctx, "servers", "report:", server, report, reportLasts)
}

// Present stores the state of the named server, which expires after lasts, and returns the stored
// states of all servers by server name.
func (s *Shared) Present(ctx context.Context, server string, state []byte, lasts time.Duration) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	if err := s.store(ctx, "present", "state:", server, state, lasts); err != nil {
		return nil, err
	}
	return s.stored(ctx, "present", "state:")
}

// store stores a text of a server, which expires after lasts. kind is the first part of its key.
// store also adds the server to the hash of servers with such texts, whose key is in names.
func (s *Shared) store(ctx context.Context, names, kind, server string, text []byte, lasts time.Duration) error {
	p := s.client.Current().Pipeline()
	p.Set(ctx, s.key(kind+server), text, lasts)
	p.HSet(ctx, s.key(names), server, "")
	_, err := p.Exec(ctx)
	return s.failed(err)
}

// Reports asks all servers to report until wanted has passed, and returns the stored reports by server name.
func (s *Shared) Reports(ctx context.Context, wanted time.Duration) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	if err := s.client.Current().Set(ctx, s.key("wanted"), "", wanted).Err(); err != nil {
		return nil, s.failed(err)
	}
	return s.stored(ctx, "servers", "report:")
}

// stored returns the texts of a kind by server name, and removes servers without a text from the hash of
// servers. See store.
func (s *Shared) stored(ctx context.Context, names, kind string) (map[string]string, error) {
	c, texts := s.client.Current(), map[string]string{}
	known, err := c.HGetAll(ctx, s.key(names)).Result()
	if err != nil || len(known) == 0 {
		return texts, s.failed(err)
	}
	var silent []string
	for servers := range slices.Chunk(slices.Collect(maps.Keys(known)), reportsAtOnce) {
		var keys []string
		for _, server := range servers {
			keys = append(keys, s.key(kind+server))
		}
		replies, err := c.MGet(ctx, keys...).Result()
		if err != nil {
			return texts, s.failed(err)
		}
		for i, reply := range replies {
			if text, there := reply.(string); there {
				texts[servers[i]] = text
			} else {
				silent = append(silent, servers[i])
			}
		}
	}
	if len(silent) > 0 { // stopped servers; a running server adds itself again with its next text
		err = c.HDel(ctx, s.key(names), silent...).Err()
	}
	return texts, s.failed(err)
}

// Mark sets the named mark to text, which expires after lasts, and returns "". If the mark exists and
// replace is false, Mark returns the existing text, or "expired" if the mark expires during the call.
func (s *Shared) Mark(ctx context.Context, name, text string, lasts time.Duration, replace bool) (other string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	c, key := s.client.Current(), s.key("mark:"+name)
	if replace {
		return "", s.failed(c.Set(ctx, key, text, lasts).Err())
	}
	if isSet, err := c.SetNX(ctx, key, text, lasts).Result(); isSet || err != nil {
		return "", s.failed(err)
	}
	found, err := c.MGet(ctx, key).Result() // MGET, because decisions need the permission for MGET anyway
	if err == nil && found[0] != nil {
		return found[0].(string), nil
	}
	return "expired", s.failed(err)
}

func (s *Shared) failed(err error) error { return queue.Unavailable(s.client.Failed(err)) }
