package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

//go:embed lua/*.lua
var lua embed.FS

// The script decides the requests of a batch. Redis knows it by its digest.
var (
	scriptText   = luaText(scriptFiles()...)
	scriptDigest = fmt.Sprintf("%x", sha1.Sum([]byte(scriptText)))
)

// scriptFiles lists the files of the script in its order. There is one for each algorithm.
func scriptFiles() []string {
	return slices.Concat([]string{"time", "straight", "state"}, limiter.AlgorithmNames(), []string{"holds", "limits", "together", "decide"})
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

// call asks Redis, or a node of a cluster, to decide batches in one pipeline, and sets the
// reply or the error of each. It returns those that the node did not decide because it
// has no such slot: nothing was done about them, and b.client is to be asked.
func (b *backend) call(client caller, batches []*batch) (elsewhere []*batch) {
	// Not the context of any caller: a batch belongs to several, and is decided even if
	// all of them leave. So it takes as long as the most patient of them waits, or as one
	// without a deadline does: what is known late is of use to later requests.
	start := time.Now()
	patience := b.patience
	for _, batch := range batches {
		patience = max(patience, batch.until.Sub(start))
		batch.asked, batch.number = b.local(), b.denials.number()
		batch.redisTime = batch.asked.UnixMicro() + b.ahead.Load()
	}
	ctx, cancel := context.WithDeadline(context.Background(), start.Add(patience))
	defer cancel()
	answers := b.run(ctx, client, batches, "evalsha")
	seconds := time.Since(start).Seconds()
	var failed error
	for i, batch := range batches {
		if client != b.client && b.isElsewhere(answers[i].err) {
			elsewhere = append(elsewhere, batch)
			continue
		}
		b.metrics.calls.Inc()
		b.metrics.requests.Observe(float64(len(batch.ends)))
		b.metrics.seconds.Observe(seconds)
		var err error
		if batch.reply, err = newReply(answers[i], batch); err != nil {
			err = b.client.clean(err)
			batch.err = unavailable(err)
		} else {
			err = b.client.clean(batch.reply.refusal)
			batch.reply.refusal = err
		}
		if err != nil {
			b.metrics.errors[classify(err)].Inc()
			b.client.lookAgain(err)
			failed = err
		}
	}
	if len(elsewhere) < len(batches) {
		b.outage.observe(failed)
		b.breaker.observe(failed, patience)
	}
	return elsewhere
}

// isElsewhere reports whether a node did nothing because another has the slot, because it
// is no part of the cluster any more, or because the password may have changed.
func (b *backend) isElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || errors.Is(err, redis.ErrClosed) ||
		b.client.server.Latest != nil && isRefused(err)
}

// caller is a client of go-redis, or of one node of a cluster.
type caller interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// answer is what Redis says to one command.
type answer struct {
	integers []int64
	err      error
}

// run has Redis decide batches by a command, EVALSHA or EVAL. It repeats those about which nothing
// was done: with its text if Redis does not have the script, at the time of Redis if the windows
// of a calendar were not those of its clock, and all if it did not let the call in, see follow.go.
func (b *backend) run(ctx context.Context, client caller, batches []*batch, command string) []answer {
	began := time.Now()
	answers := b.exchange(ctx, client, batches, command)
	for pause := firstPause; client == b.client && isRefused(answers[0].err) && b.client.mayRetry(ctx, began, pause); pause = min(2*pause, lastPause) {
		answers = b.exchange(ctx, client, batches, command)
	}
	for range 2 {
		var again []*batch
		var places []int
		for i, batch := range batches {
			a := answers[i]
			switch {
			case redis.HasErrorPrefix(a.err, "NOSCRIPT"):
				b.metrics.errors[kindNoScript].Inc()
				command = "eval"
			case a.noWindow():
				batch.redisTime = a.integers[0]
				b.ahead.Store(batch.redisTime - batch.asked.UnixMicro())
			default:
				continue
			}
			again, places = append(again, batch), append(places, i)
		}
		if again == nil {
			break
		}
		for i, a := range b.exchange(ctx, client, again, command) {
			answers[places[i]] = a
		}
	}
	return answers
}

// exchange sends a command for each of the batches, all at once, and returns the answers.
func (b *backend) exchange(ctx context.Context, client caller, batches []*batch, command string) []answer {
	answers := make([]answer, len(batches))
	if len(batches) == 1 {
		cmd := b.command(ctx, batches[0], command)
		err := client.Process(ctx, cmd)
		answers[0] = answer{cmd.Val(), err}
		return answers
	}
	pipeline := client.Pipeline()
	cmds := make([]piped, len(batches))
	for i, batch := range batches {
		cmds[i].once = b.command(ctx, batch, command)
		_ = pipeline.Process(ctx, &cmds[i]) // Exec sends it
	}
	_, err := pipeline.Exec(ctx)
	for i := range cmds {
		cmd := &cmds[i]
		answers[i] = answer{cmd.Val(), cmd.Err()}
		if !cmd.ended {
			answers[i].err = err // a reply to what comes before commands, such as a wrong password
		}
	}
	return answers
}

// command makes the command that calls the script of a batch.
func (b *backend) command(ctx context.Context, batch *batch, name string) once {
	script := scriptDigest
	if name == "eval" {
		script = scriptText
	}
	clock := ""
	if b.now != nil {
		clock = strconv.FormatInt(b.now().UnixMicro(), 10)
	}
	args := make([]any, 0, 7+len(batch.counters))
	args = batch.arguments(append(args, name, script), clock)
	return once{redis.NewIntSliceCmd(ctx, args...)}
}

// once is a command that go-redis does not repeat after an error of the network,
// which would charge twice; only where a cluster says that another node has the
// key, and so that nothing was done.
type once struct{ *redis.IntSliceCmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// piped is a command of a pipeline. It keeps what became of it: when the connection
// breaks later, go-redis sets the error of that for all commands.
type piped struct {
	once
	ended bool
}

// SetErr implements redis.Cmder.
func (c *piped) SetErr(err error) {
	if !c.ended {
		c.ended = true
		c.once.SetErr(err)
	}
}
