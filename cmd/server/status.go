package main

import (
	"context"
	"io"

	"weir/internal/operators/client"
	"weir/internal/operators/text"
)

// statusCommand is the command status.
type statusCommand struct {
	remote
}

// ask asks how the server is.
func (statusCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	answer, err := server.Status(ctx)
	return reply{json: answer.JSON, at: answer.At, text: func(view text.View, w io.Writer) {
		view.Status(w, server.Server(), &answer.Value)
	}}, err
}
