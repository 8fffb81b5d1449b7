package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"weir/internal/operators/api"
	"weir/internal/operators/client"
	"weir/internal/operators/text"
)

// exceptCommand is the command except.
type exceptCommand struct {
	Add    exceptAdd    `cmd:"" help:"Add an exception from the rules. It holds on all servers that share the Redis, beats rules and bans, and ends by itself. Exits with 0 if it was added, and 2 if not."`
	List   exceptList   `cmd:"" help:"List the exceptions in force, the newest first. Exits with 0, or 2 if the server does not answer."`
	Remove exceptRemove `cmd:"" help:"End an exception. Exits with 0 if it has ended, 1 if there is none, and 2 if the server does not answer."`
}

// exceptAdd is the command except add.
type exceptAdd struct {
	whom
	Allow  bool          `xor:"effect" required:"" help:"Admit everything."`
	Deny   bool          `xor:"effect" required:"" help:"Deny everything."`
	Amount factor        `xor:"effect" required:"" placeholder:"10x" help:"Multiply the amounts of all limits, from 0.001x to 1000000x."`
	For    time.Duration `required:"" placeholder:"2h" such:"30m or 24h" help:"How long it holds, such as 30m or 12h."`
	Reason string        `required:"" placeholder:"TEXT" help:"Why, for others and for the audit log of the server."`
	who
	remote
}

// factor is by what amounts are multiplied.
type factor float64

// Decode reads a number with or without an x behind it.
func (f *factor) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("factor", &text); err != nil {
		return err
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(n >= 0.001 && n <= 1_000_000) {
		return fmt.Errorf("%q is not allowed, allowed are 0.001x to 1000000x, such as 10x", text)
	}
	*f = factor(n)
	return nil
}

// ask adds the exception.
func (c exceptAdd) ask(ctx context.Context, server *client.Client) (reply, error) {
	d, err := c.read()
	switch {
	case err != nil:
	case c.For <= 0:
		err = fmt.Errorf("--for: %v is not allowed, allowed is more than 0s", c.For)
	case strings.TrimSpace(c.Reason) == "":
		err = fmt.Errorf("--reason: it is empty")
	}
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Add(ctx, api.NewException{
		Descriptor: d, Effect: c.effect(), Factor: float64(c.Amount), For: c.For.Seconds(), By: c.name(), Reason: c.Reason,
	})
	return reply{json: answer.JSON, at: answer.At, note: answer.Value.Note, text: func(view text.View, w io.Writer) { view.Added(w, &answer.Value) }}, err
}

func (c exceptAdd) effect() string {
	switch {
	case c.Allow:
		return api.Allow
	case c.Deny:
		return api.Deny
	default:
		return api.Amount
	}
}

// exceptList is the command except list.
type exceptList struct {
	ofDomain
	replicas
	remote
}

// ask asks for the exceptions.
func (c exceptList) ask(ctx context.Context, server *client.Client) (reply, error) {
	shown, err := c.read()
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Exceptions(ctx, !c.This)
	if err != nil {
		return reply{}, err
	}
	e := &answer.Value
	if c.Domain != nil {
		e.Exceptions = slices.DeleteFunc(e.Exceptions, func(x api.Exception) bool {
			domain, _, err := x.Bytes()
			return err != nil || !shown(domain)
		})
		answer.JSON, err = json.Marshal(e)
	}
	return reply{json: answer.JSON, at: answer.At, text: func(view text.View, w io.Writer) { view.Exceptions(w, e) }}, err
}

// exceptRemove is the command except remove.
type exceptRemove struct {
	ID string `arg:"" name:"id" help:"Of the exception, as except list shows it."`
	who
	remote
}

// ask ends the exception.
func (c exceptRemove) ask(ctx context.Context, server *client.Client) (reply, error) {
	if err := server.Remove(ctx, c.ID, c.name()); err != nil {
		return reply{}, err
	}
	encoded, err := json.Marshal(map[string]string{"id": c.ID})
	return reply{json: encoded, at: time.Now(), text: func(view text.View, w io.Writer) { view.Removed(w, c.ID) }}, err
}
