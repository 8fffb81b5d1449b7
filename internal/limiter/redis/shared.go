package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// Shared is what servers with the same Redis and the same prefix of keys share.
type Shared interface {
	limiter.Shared
	Close() error
}

// shared is what servers share in the main Redis beside the counters: hashes of texts, and
// reports that expire. It has connections of its own, so that no decision waits for it. Each
// call is bounded by its context, and by a second, or Timeout if it is longer. All errors
// wrap limiter.ErrUnavailable: whether the call had an effect is not known then.
type shared struct {
	client    *client
	keyPrefix string
}

// OpenShared returns what all servers with the same Redis and the same prefix of keys share.
// It does not connect.
func OpenShared(main Server, keyPrefix string) (Shared, error) {
	const least = time.Second // nobody is kept waiting for an answer by Envoy
	main.Timeout = max(main.Timeout, least)
	client, err := newClient(main, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &shared{client, keyPrefix}, nil
}

// Close ends all connections, and calls that wait.
func (s *shared) Close() error { return s.client.close() }

func (s *shared) key(name string) string { return limiter.SharedKey(s.keyPrefix, name) }

// Fields returns those fields of a hash that are there, at one moment: all if none is named.
func (s *shared) Fields(ctx context.Context, hash string, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		fields, err := s.client.current().HGetAll(ctx, s.key(hash)).Result()
		return fields, s.failed(err)
	}
	texts, err := s.client.current().HMGet(ctx, s.key(hash), names...).Result()
	return textsOf(names, texts), s.failed(err)
}

// textsOf returns the replies that are texts, by their names.
func textsOf(names []string, replies []any) map[string]string {
	texts := make(map[string]string)
	for i, reply := range replies {
		if text, there := reply.(string); there {
			texts[names[i]] = text
		}
	}
	return texts
}

// setScript is sent whole: calls are few, and Redis may have forgotten it.
var setScript = luaText("set")

// Set sets fields of a hash, or removes those whose text is empty, all at once, and returns
// how many of them were there. If anything changes, it adds one to the field .count. The
// field .epoch is another text in each hash that began empty. It works in a Redis that is
// full.
func (s *shared) Set(ctx context.Context, hash string, fields map[string]string) (there int, err error) {
	args := []any{rand.Text()}
	for name, text := range fields {
		args = append(args, name, text)
	}
	there, err = s.client.current().Eval(ctx, setScript, []string{s.key(hash)}, args...).Int()
	return there, s.failed(err)
}

// Remove removes fields of a hash, and leaves .count as it is.
func (s *shared) Remove(ctx context.Context, hash string, names ...string) error {
	return s.failed(s.client.current().HDel(ctx, s.key(hash), names...).Err())
}

// Report leaves the report of a server for a while.
func (s *shared) Report(ctx context.Context, server string, report []byte, lasts time.Duration) error {
	return s.failed(s.client.current().Set(ctx, s.key("report:"+server), report, lasts).Err())
}

// Reports returns the reports of servers, by their names, as far as they are there.
func (s *shared) Reports(ctx context.Context, servers []string) (map[string]string, error) {
	keys := make([]string, len(servers))
	for i, server := range servers {
		keys[i] = s.key("report:" + server)
	}
	reports, err := s.client.current().MGet(ctx, keys...).Result()
	return textsOf(servers, reports), s.failed(err)
}

// failed returns what a caller learns of an error of go-redis, and looks for the primary
// anew if another one may be it.
func (s *shared) failed(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	s.client.lookAgain(err)
	return unavailable(s.client.clean(err))
}
