package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"weir/internal/operators/client"
	"weir/internal/operators/denials"
	"weir/internal/operators/text"
)

// topCommand is the command top.
type topCommand struct {
	ofDomain
	replicas
	Window string `enum:"minute,hour" default:"hour" help:"What is shown as text: what was denied in the last minute or hour. By default hour."`
	remote
}

// replicas is embedded in commands about all servers that share one Redis.
type replicas struct {
	This bool `help:"Of the server that is asked alone, not of all that share its Redis."`
}

// ask asks what was denied most.
func (t topCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	shown, err := t.read()
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Denials(ctx, !t.This)
	if err != nil {
		return reply{}, err
	}
	d := &answer.Value
	if t.Domain != nil {
		keepDomain(d, shown)
		answer.JSON, err = json.Marshal(d)
	}
	window := &d.Hour
	if t.Window == "minute" {
		window = &d.Minute
	}
	return reply{json: answer.JSON, at: d.At, text: func(view text.View, w io.Writer) { view.Top(w, d, window) }}, err
}

// keepDomain leaves of d what is of the domains that are shown.
func keepDomain(d *client.Denials, shown func(domain string) bool) {
	for _, w := range []*denials.Window{&d.Minute, &d.Hour} {
		w.Limits = slices.DeleteFunc(w.Limits, func(l denials.Limit) bool { return !shown(l.Domain) })
	}
	d.Last = slices.DeleteFunc(d.Last, func(e denials.Event) bool { return !shown(e.Domain) })
}
