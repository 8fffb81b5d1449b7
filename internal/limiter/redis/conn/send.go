package conn

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Answer is Redis' reply to one command.
type Answer struct {
	Integers []int64
	Err      error
}

// Send sends commands to a node together, and returns the answer to each. It never repeats a
// command that Redis may have executed: it sends commands again only after a cluster's redirection
// and, for a nil Node, after a refused login; see retryLogin.
func (c *Client) Send(ctx context.Context, node Node, commands [][]any) []Answer {
	began := time.Now()
	answers := c.exchange(ctx, node, commands)
	for pause := firstPause; node == nil && isRefused(answers[0].Err) && c.retryLogin(ctx, began, pause); pause = min(2*pause, lastPause) {
		answers = c.exchange(ctx, node, commands)
	}
	return answers
}

// exchange sends commands once, as a pipeline if there are several.
func (c *Client) exchange(ctx context.Context, node Node, commands [][]any) []Answer {
	client := c.Current()
	if node != nil {
		client = node
	}
	answers := make([]Answer, len(commands))
	if len(commands) == 1 {
		cmd := once{redis.NewIntSliceCmd(ctx, commands[0]...)}
		err := client.Process(ctx, cmd)
		answers[0] = Answer{cmd.Val(), err}
		return answers
	}
	pipeline := client.Pipeline()
	cmds := make([]piped, len(commands))
	for i, command := range commands {
		cmds[i].once = once{redis.NewIntSliceCmd(ctx, command...)}
		_ = pipeline.Process(ctx, &cmds[i]) // Exec sends it
	}
	_, err := pipeline.Exec(ctx)
	for i := range cmds {
		cmd := &cmds[i]
		answers[i] = Answer{cmd.Val(), cmd.Err()}
		if !cmd.ended {
			answers[i].Err = err // for example the error of AUTH, which precedes the commands
		}
	}
	return answers
}

// once is a command that go-redis does not repeat after a network error, which would charge
// twice. go-redis still follows redirections of a cluster, because the redirecting node has not
// executed the command.
type once struct{ *redis.IntSliceCmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// piped is a command of a pipeline that keeps its first result. If the connection breaks later,
// go-redis sets the error of the connection for all commands of the pipeline.
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

// IsNoScript reports whether err means that Redis did nothing because it does not have the
// script.
func IsNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// IsElsewhere reports whether err means that a node did nothing because another node has the
// slot, because the node has left the cluster, or because the password may have changed.
func (c *Client) IsElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || errors.Is(err, redis.ErrClosed) ||
		c.server.Latest != nil && isRefused(err)
}
