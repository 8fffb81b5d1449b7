package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

//go:embed lua/*.lua
var lua embed.FS

// script is a program that Redis runs.
type script struct {
	text string
	sha  string // by which Redis knows it
}

var (
	decideScript   = newScript([]string{"straight"}, "together", "decide")
	giveBackScript = newScript(nil, "giveback")
)

// newScript puts what all scripts use and the named files into one. The first come before
// what they need not know.
func newScript(first []string, last ...string) *script {
	return scriptOf(luaText(slices.Concat([]string{"time"}, first, []string{"prelude", "state"}, limiter.AlgorithmNames(), []string{"limits"}, last)...))
}

// scriptOf makes a script of its text.
func scriptOf(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// luaText returns the named files as one text.
func luaText(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded above
		}
		b.Write(text)
	}
	return b.String()
}

// call asks Redis to decide b and sets its reply or its error.
func (b *backend) call(batch *batch) {
	// Not the context of any caller: the batch belongs to several, and is
	// decided even if all of them leave.
	ctx := &connecting{Context: context.Background(), timeout: b.opTimeout}
	defer ctx.cancel()
	start := time.Now()
	batch.asked, batch.number = b.local(), b.denials.number()
	integers, err := b.run(ctx, b.client, batch)
	b.metrics.calls.Inc()
	b.metrics.requests.Observe(float64(batch.len()))
	b.metrics.seconds.Observe(time.Since(start).Seconds())
	if err == nil {
		batch.reply, err = newReply(integers, batch)
	}
	if err != nil {
		err = b.client.Clean(err)
		batch.err = unavailable(err)
	} else {
		batch.reply.refusal = b.client.Clean(batch.reply.refusal)
		err = batch.reply.refusal
	}
	if err != nil {
		b.metrics.errors[classify(err)].Inc()
		b.reconnect(err)
	}
	b.outage.observe(err)
	b.breaker.observe(err)
}

// connecting is a context that bounds how long a call waits for a connection, from when
// go-redis first asks for it: if this process does not run before that, the call is not
// late. It has no deadline, so that go-redis waits for the reply until opTimeout after
// the call was written.
type connecting struct {
	context.Context // until done is made
	timeout         time.Duration

	once    sync.Once
	done    context.Context
	release context.CancelFunc
}

func (c *connecting) start() context.Context {
	c.once.Do(func() { c.done, c.release = context.WithTimeout(c.Context, c.timeout) })
	return c.done
}

// Done implements context.Context.
func (c *connecting) Done() <-chan struct{} { return c.start().Done() }

// Err implements context.Context.
func (c *connecting) Err() error { return c.start().Err() }

// cancel ends c.
func (c *connecting) cancel() {
	c.start()
	c.release()
}

// processor is a client of go-redis, or of one node of a cluster.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// run runs the script of a batch by its name, and sends its text if Redis does
// not have it: NOSCRIPT is the one error after which a call can be repeated.
func (b *backend) run(ctx context.Context, client processor, batch *batch) ([]int64, error) {
	integers, err := b.runAs(ctx, client, batch, "evalsha", batch.script.sha)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		b.metrics.errors[kindNoScript].Inc()
		return b.load(ctx, client, batch)
	}
	return integers, err
}

// load runs the script of a batch by its text, by which Redis learns its name.
// EVAL rather than SCRIPT LOAD, because in a cluster it goes to the same node.
func (b *backend) load(ctx context.Context, client processor, batch *batch) ([]int64, error) {
	return b.runAs(ctx, client, batch, "eval", batch.script.text)
}

func (b *backend) runAs(ctx context.Context, client processor, batch *batch, command, script string) ([]int64, error) {
	args := make([]any, 0, 6+batch.keys.len())
	args = batch.arguments(append(args, command, script), b.clock())
	cmd := once{redis.NewIntSliceCmd(ctx, args...)}
	err := client.Process(ctx, cmd)
	return cmd.Val(), err
}

// once is a command that go-redis does not repeat after an error of the network,
// which would charge twice; only where a cluster says that another node has the
// key, and so that nothing was done.
type once struct{ *redis.IntSliceCmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// clock is the time of a call as the scripts read it, see time.lua.
func (b *backend) clock() string {
	switch {
	case b.now == nil:
		return ""
	case b.oneClock:
		return strconv.FormatInt(b.now().UnixMicro(), 10)
	default:
		return strconv.FormatInt(b.now().UnixMicro(), 10) + " several"
	}
}
