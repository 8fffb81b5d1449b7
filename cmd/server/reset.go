package main

import (
	"context"

	"weir/internal/operators/client"
)

// resetCommand is the command reset.
type resetCommand struct {
	whom
	who
	remote
}

// ask sets the counters of the descriptor to zero.
func (c resetCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	d, err := c.read()
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Reset(ctx, d, c.name())
	return countersReply(answer, true), err
}
