package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// script is the files of the algorithms and of the decision in one.
var script = func() string {
	var b strings.Builder
	for _, name := range []string{"prelude", "fixedwindow", "slidingwindow", "tokenbucket", "decide"} {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded above
		}
		b.Write(text)
	}
	return b.String()
}()

// scriptSHA is the name by which Redis knows the script.
var scriptSHA = func() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}()

// call asks Redis to decide b and sets its reply or its error.
func (s *Store) call(b *batch) {
	// Not the context of any caller: the batch belongs to several, and is
	// decided even if all of them leave.
	ctx, cancel := context.WithTimeout(context.Background(), s.opTimeout)
	defer cancel()
	start := time.Now()
	texts, err := s.evalsha(ctx, b)
	s.metrics.calls.Inc()
	s.metrics.requests.Observe(float64(b.requests.len()))
	s.metrics.seconds.Observe(time.Since(start).Seconds())
	if err == nil {
		b.reply, err = newReply(texts, b.requests.len())
	}
	if err != nil {
		b.err = unavailable(err)
	} else {
		err = b.reply.failure()
	}
	if err != nil {
		s.metrics.errors[classify(err)].Inc()
	}
	s.outage.observe(err)
}

// evalsha runs the script on b, and loads it first if Redis does not have it:
// NOSCRIPT is the one error after which a call can be repeated.
func (s *Store) evalsha(ctx context.Context, b *batch) ([]string, error) {
	args := make([]any, 0, 4+b.keys.len()+b.requests.len())
	args = append(args, "evalsha", scriptSHA, b.keys.len())
	args = b.keys.appendTo(args)
	args = append(args, s.clock())
	args = b.requests.appendTo(args)

	cmd := redis.NewStringSliceCmd(ctx, args...)
	err := s.client.Process(ctx, cmd)
	if !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return cmd.Val(), err
	}
	s.metrics.errors[kindNoScript].Inc()
	if err := s.client.ScriptLoad(ctx, script).Err(); err != nil {
		return nil, fmt.Errorf("loading the script: %w", err)
	}
	cmd = redis.NewStringSliceCmd(ctx, args...)
	err = s.client.Process(ctx, cmd)
	return cmd.Val(), err
}

// clock is the time of a call as decide.lua reads it: empty for Redis' own.
func (s *Store) clock() string {
	if s.now == nil {
		return ""
	}
	return strconv.FormatInt(s.now().UnixMicro(), 10)
}
