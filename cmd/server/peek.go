package main

import (
	"context"
	"io"

	"weir/internal/operators/api"
	"weir/internal/operators/client"
	"weir/internal/operators/text"
)

// peekCommand is the command peek.
type peekCommand struct {
	whom
	remote
}

// ask asks for the counters of the descriptor.
func (c peekCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	d, err := c.read()
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Peek(ctx, d)
	return countersReply(answer, false), err
}

// countersReply shows counters.
func countersReply(answer client.Answer[api.Counters], reset bool) reply {
	r := reply{json: answer.JSON, at: answer.At, text: func(view text.View, w io.Writer) {
		view.Counters(w, &answer.Value, reset)
	}}
	if answer.Value.Rule == "" {
		r.code = exitNoRule
	}
	return r
}
