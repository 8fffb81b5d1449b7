package redis

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// Shared is the data that servers with the same main Redis and the same prefix of keys share
// beside the counters: exceptions, and reports that expire. It implements operators.Shared. It
// has connections of its own, so that no decision waits for it. Each method is bounded by its
// context, and by a second, or Timeout if it is longer. All errors wrap
// limiter.ErrUnavailable: whether the call had an effect is not known then.
type Shared struct {
	client    *client
	keyPrefix string
}

// OpenShared returns the shared data in main. It does not connect.
func OpenShared(main Server, keyPrefix string) (*Shared, error) {
	main.Timeout = max(main.Timeout, time.Second) // nobody is kept waiting for an answer by Envoy
	client, err := newClient(main, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &Shared{client, keyPrefix}, nil
}

// Close ends all connections, and calls that wait.
func (s *Shared) Close() error { return s.client.close() }

func (s *Shared) key(name string) string { return limiter.SharedKey(s.keyPrefix, name) }

// bounded returns ctx with the deadline of a method. go-redis only bounds each attempt, and makes
// up to four attempts in a cluster.
func (s *Shared) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.client.server.Timeout)
}

// Exceptions returns the texts of exceptions by their IDs.
func (s *Shared) Exceptions(ctx context.Context) (map[string]string, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	texts, err := s.client.current().HGetAll(ctx, s.key("exceptions")).Result()
	return texts, s.failed(err)
}

// setScript is sent whole: calls are few, and Redis may have forgotten it.
var setScript = luaText("set")

// SetExceptions sets texts by their IDs, all at once. It works in a Redis that is full.
func (s *Shared) SetExceptions(ctx context.Context, texts map[string]string) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var args []any
	for id, text := range texts {
		args = append(args, id, text)
	}
	return s.failed(s.client.current().Eval(ctx, setScript, []string{s.key("exceptions")}, args...).Err())
}

// RemoveExceptions removes the texts of one or more IDs.
func (s *Shared) RemoveExceptions(ctx context.Context, ids ...string) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.failed(s.client.current().HDel(ctx, s.key("exceptions"), ids...).Err())
}

// ReportsWanted reports whether the time of a call of Reports lasts.
func (s *Shared) ReportsWanted(ctx context.Context) (bool, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	found, err := s.client.current().MGet(ctx, s.key("wanted")).Result() // which its user may send in any case
	return len(found) == 1 && found[0] != nil, s.failed(err)
}

const (
	// reportLasts is for how long a report is there.
	reportLasts = 2 * time.Second
	// reportsAtOnce is the number of reports in one reply, which must not exceed maxReply.
	reportsAtOnce = 32
)

// Report stores the report of a server for reportLasts.
func (s *Shared) Report(ctx context.Context, server string, report []byte) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err := s.client.current().Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, s.key("servers"), server, "")
		p.Set(ctx, s.key("report:"+server), report, reportLasts)
		return nil
	})
	return s.failed(err)
}

// Reports asks all servers to report during wanted, and returns those reports that are stored
// now by the servers' names.
func (s *Shared) Reports(ctx context.Context, wanted time.Duration) (map[string]string, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c, reports := s.client.current(), map[string]string{}
	if err := c.Set(ctx, s.key("wanted"), "", wanted).Err(); err != nil {
		return nil, s.failed(err)
	}
	known, err := c.HGetAll(ctx, s.key("servers")).Result()
	if err != nil || len(known) == 0 {
		return reports, s.failed(err)
	}
	var silent []string
	for servers := range slices.Chunk(slices.Collect(maps.Keys(known)), reportsAtOnce) {
		var keys []string
		for _, server := range servers {
			keys = append(keys, s.key("report:"+server))
		}
		replies, err := c.MGet(ctx, keys...).Result()
		if err != nil {
			return reports, s.failed(err)
		}
		for i, reply := range replies {
			if report, there := reply.(string); there {
				reports[servers[i]] = report
			} else {
				silent = append(silent, servers[i])
			}
		}
	}
	if len(silent) > 0 { // they have ended, or come again with their next report
		err = c.HDel(ctx, s.key("servers"), silent...).Err()
	}
	return reports, s.failed(err)
}

// failed returns what a caller learns of an error of go-redis, and looks for the primary
// anew if another one may be it.
func (s *Shared) failed(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	s.client.lookAgain(err)
	return unavailable(s.client.clean(err))
}
