package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"weir/internal/operators/client"
	"weir/internal/operators/text"
)

// denialsCommand is the command denials.
type denialsCommand struct {
	ofDomain
	replicas
	N int `short:"n" default:"20" placeholder:"N" help:"Show so many at most, of the 100 that a server keeps. By default 20."`
	remote
}

// ask asks what was denied last.
func (c denialsCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	shown, err := c.read()
	if err == nil && c.N < 1 {
		err = fmt.Errorf("-n: %d is not allowed, allowed is 1 or more", c.N)
	}
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Denials(ctx, !c.This)
	if err != nil {
		return reply{}, err
	}
	d := &answer.Value
	keepDomain(d, shown)
	d.Last = d.Last[:min(len(d.Last), c.N)]
	encoded, err := json.Marshal(d)
	return reply{json: encoded, at: d.At, text: func(view text.View, w io.Writer) { view.Denials(w, d) }}, err
}
