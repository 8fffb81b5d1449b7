package main

import (
	"context"
	"io"

	"weir/internal/adminclient"
	"weir/internal/admintext"
)

// statusCommand is the command status.
type statusCommand struct {
	remote
}

// ask asks how the server is.
func (statusCommand) ask(ctx context.Context, server *adminclient.Client) (reply, error) {
	answer, err := server.Status(ctx)
	return reply{json: answer.JSON, at: answer.At, text: func(view admintext.View, w io.Writer) {
		view.Status(w, server.Server(), &answer.Value)
	}}, err
}
