package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/explain"
	"weir/internal/operators/api"
	"weir/internal/operators/client"
	"weir/internal/operators/denials"
)

// remote is embedded in commands that ask a running server.
type remote struct {
	Server    string        `env:"WEIR_SERVER" default:"http://127.0.0.1:6070" placeholder:"URL" group:"Server to ask:" help:"Debug port of a running server: host:port, http://host:port or https://host:port. By default http://127.0.0.1:6070."`
	TokenFile string        `name:"token-file" env:"WEIR_TOKEN_FILE,ADMIN_TOKEN_FILE" placeholder:"FILE" group:"Server to ask:" help:"File with the token that the server wants, if it wants one. Set it only for servers that may see the token."`
	CAFile    string        `name:"ca-file" env:"WEIR_CA_FILE" placeholder:"FILE" group:"Server to ask:" help:"Authorities that the certificate of an https server must come from, in PEM form. By default those of the system."`
	Timeout   time.Duration `default:"10s" group:"Server to ask:" help:"How long to wait for an answer. By default 10s."`
	Output    string        `enum:"text,json" default:"text" help:"Format of the answer: text, or json, which is the answer of the server."`
}

// reply is what such a command prints, and what it exits with.
type reply struct {
	json []byte
	at   time.Time // by the clock of the server
	text func(view client.View, w io.Writer)
	note string // for stderr, beside the text
	exit error
}

// replyOf is a reply whose text is written by a method of client.View.
func replyOf[T any](a client.Answer[T], text func(client.View, io.Writer, *T)) reply {
	return reply{json: a.JSON, at: a.At, text: func(view client.View, w io.Writer) { text(view, w, &a.Value) }}
}

// ask connects to a server, asks it a question, and prints the answer.
func (r remote) ask(p *program, question func(*client.Client) (reply, error)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	answer, err := question(server)
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Fprintf(p.stderr, "weir: %v\n", err)
		return exit(exitFailed)
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w; --server says where its debug port is", err)
	case errors.Is(err, client.ErrUnauthorized) && r.TokenFile == "":
		return fmt.Errorf("%w; --token-file names the file of its token", err)
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w; it does not accept the token of --token-file", err)
	case err != nil:
		return err
	case r.Output == "json":
		return cmp.Or(writeJSON(p.stdout, answer.json), answer.exit)
	}
	if answer.note != "" {
		fmt.Fprintf(p.stderr, "note: %s\n", plaintext.Line(answer.note))
	}
	answer.text(client.View{Now: answer.at.Local(), Flags: r.again()}, p.stdout)
	return answer.exit
}

func (r remote) connect() (*client.Client, error) {
	if r.Timeout <= 0 {
		return nil, fmt.Errorf("--timeout: %v is not allowed, allowed is more than 0s", r.Timeout)
	}
	options := client.Options{Server: r.Server, Timeout: r.Timeout, UserAgent: "weir/" + strings.Fields(version())[0]}
	var err error
	if r.TokenFile != "" {
		if options.Token, err = client.ReadToken(r.TokenFile); err != nil {
			return nil, fmt.Errorf("--token-file ($WEIR_TOKEN_FILE): %w", err)
		}
	}
	if r.CAFile != "" {
		if options.CAs, err = authorities(r.CAFile); err != nil {
			return nil, fmt.Errorf("--ca-file ($WEIR_CA_FILE): %w", err)
		}
	}
	server, err := client.New(options)
	if err != nil {
		return nil, fmt.Errorf("--server ($WEIR_SERVER): %w", err)
	}
	return server, nil
}

// again returns the flags with which the same server is asked again, but for those that
// the environment sets or that are the default.
func (r remote) again() string {
	var b strings.Builder
	for _, flag := range []struct{ name, value, variable, byDefault string }{
		{"server", r.Server, "WEIR_SERVER", "http://127.0.0.1:6070"},
		{"token-file", r.TokenFile, "WEIR_TOKEN_FILE", os.Getenv("ADMIN_TOKEN_FILE")},
		{"ca-file", r.CAFile, "WEIR_CA_FILE", ""},
	} {
		if flag.value != flag.byDefault && flag.value != os.Getenv(flag.variable) {
			fmt.Fprintf(&b, " --%s %s", flag.name, explain.Quote(plaintext.Line(flag.value)))
		}
	}
	return b.String()
}

// who is embedded in commands that change something.
type who struct {
	By string `placeholder:"NAME" help:"Who does this, for the audit log of the server. By default the name of your user."`
}

// name returns who does this.
func (w who) name() string {
	u, err := user.Current()
	if err != nil {
		u = new(user.User)
	}
	return cmp.Or(w.By, os.Getenv("USER"), u.Username, fmt.Sprintf("uid %d", os.Getuid()))
}

// whom is embedded in commands about a descriptor.
type whom struct {
	Domain     anyBytes `arg:"" help:"Domain of the descriptor."`
	Descriptor anyBytes `arg:"" help:"Its entries, such as user=alice,path=/login. A backslash before a comma, an = or a backslash takes it as it is, and \\x0a is the byte 0a, as in the domain."`
}

func (w whom) read() (d api.Descriptor, err error) {
	domain, err := w.Domain.domain()
	if err != nil {
		return d, err
	}
	entries, err := w.Descriptor.entries()
	if err != nil {
		return d, err
	}
	return api.NewDescriptor(domain, entries), nil
}

// ofDomain is embedded in commands that may be about one domain only.
type ofDomain struct {
	Domain *anyBytes `arg:"" optional:"" help:"Show this domain only."`
}

// read returns whether a domain is hidden.
func (o ofDomain) read() (hidden func(domain string) bool, err error) {
	if o.Domain == nil {
		return func(string) bool { return false }, nil
	}
	domain, err := o.Domain.domain()
	return func(d string) bool { return d != domain }, err
}

// replicas is embedded in commands about all servers that share one Redis.
type replicas struct {
	This bool `help:"Of the server that is asked alone, not of all that share its Redis."`
}

// statusCommand is the command status.
type statusCommand struct{ remote }

// Run shows how a server is.
func (c statusCommand) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) {
		answer, err := server.Status(ctx)
		return replyOf(answer, func(view client.View, w io.Writer, s *api.Status) { view.Status(w, server.Server(), s) }), err
	})
}

// denied is embedded in commands about what was denied.
type denied struct {
	ofDomain
	replicas
}

// read asks what was denied, and leaves what is of the domains that are shown.
func (c denied) read(ctx context.Context, server *client.Client) (answer client.Answer[api.Denials], err error) {
	hidden, err := c.ofDomain.read()
	if err == nil {
		answer, err = server.Denials(ctx, !c.This)
	}
	if err != nil || c.Domain == nil {
		return answer, err
	}
	d := &answer.Value
	for _, w := range []*denials.Window{&d.Minute, &d.Hour} {
		w.Limits = slices.DeleteFunc(w.Limits, func(l denials.Limit) bool { return hidden(l.Domain) })
	}
	d.Last = slices.DeleteFunc(d.Last, func(e denials.Event) bool { return hidden(e.Domain) })
	answer.JSON, err = json.Marshal(d)
	return answer, err
}

// topCommand is the command top.
type topCommand struct {
	denied
	Window string `enum:"minute,hour" default:"hour" help:"What is shown as text: what was denied in the last minute or hour. By default hour."`
	remote
}

// Run shows who is denied most.
func (c topCommand) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) {
		answer, err := c.read(ctx, server)
		answer.At = answer.Value.At
		return replyOf(answer, func(view client.View, w io.Writer, d *api.Denials) {
			window := &d.Hour
			if c.Window == "minute" {
				window = &d.Minute
			}
			view.Top(w, d, window)
		}), err
	})
}

// denialsCommand is the command denials.
type denialsCommand struct {
	denied
	N int `short:"n" default:"20" placeholder:"N" help:"Show so many at most, of the 100 that a server keeps. By default 20."`
	remote
}

// Run shows the last denials.
func (c denialsCommand) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) {
		if c.N < 1 {
			return reply{}, fmt.Errorf("-n: %d is not allowed, allowed is 1 or more", c.N)
		}
		answer, err := c.read(ctx, server)
		if err != nil {
			return reply{}, err
		}
		d := &answer.Value
		d.Last, answer.At = d.Last[:min(len(d.Last), c.N)], d.At
		answer.JSON, err = json.Marshal(d)
		return replyOf(answer, client.View.Denials), err
	})
}

// peekCommand is the command peek.
type peekCommand struct {
	whom
	remote
}

// Run shows counters.
func (c peekCommand) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) { return counters(ctx, c.whom, server.Peek, false) })
}

// resetCommand is the command reset.
type resetCommand struct {
	whom
	who
	remote
}

// Run sets counters to zero.
func (c resetCommand) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) {
		reset := func(ctx context.Context, d api.Descriptor) (client.Answer[api.Counters], error) {
			return server.Reset(ctx, d, c.name())
		}
		return counters(ctx, c.whom, reset, true)
	})
}

// counters asks about the counters of a descriptor, and shows them.
func counters(ctx context.Context, of whom, ask func(context.Context, api.Descriptor) (client.Answer[api.Counters], error), reset bool) (reply, error) {
	d, err := of.read()
	if err != nil {
		return reply{}, err
	}
	answer, err := ask(ctx, d)
	r := replyOf(answer, func(view client.View, w io.Writer, c *api.Counters) { view.Counters(w, c, reset) })
	if answer.Value.Rule == "" {
		r.exit = exit(exitFailed)
	}
	return r, err
}

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

// UnmarshalText reads a number with or without an x behind it.
func (f *factor) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "x"), 64)
	if err != nil || !(n >= 0.001 && n <= 1_000_000) {
		return fmt.Errorf("%q is not allowed, allowed are 0.001x to 1000000x, such as 10x", text)
	}
	*f = factor(n)
	return nil
}

// Run adds an exception.
func (c exceptAdd) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) {
		d, err := c.read()
		switch {
		case err != nil:
			return reply{}, err
		case c.For <= 0:
			return reply{}, fmt.Errorf("--for: %v is not allowed, allowed is more than 0s", c.For)
		case strings.TrimSpace(c.Reason) == "":
			return reply{}, errors.New("--reason: it is empty")
		}
		effect := api.Amount
		if c.Allow {
			effect = api.Allow
		} else if c.Deny {
			effect = api.Deny
		}
		answer, err := server.Add(ctx, api.NewException{
			Descriptor: d, Effect: effect, Factor: float64(c.Amount), For: c.For.Seconds(), By: c.name(), Reason: c.Reason,
		})
		r := replyOf(answer, client.View.Added)
		r.note = answer.Value.Note
		return r, err
	})
}

// exceptList is the command except list.
type exceptList struct {
	ofDomain
	replicas
	remote
}

// Run lists exceptions.
func (c exceptList) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) {
		hidden, err := c.read()
		if err != nil {
			return reply{}, err
		}
		answer, err := server.Exceptions(ctx, !c.This)
		if e := &answer.Value; err == nil && c.Domain != nil {
			e.Exceptions = slices.DeleteFunc(e.Exceptions, func(x api.Exception) bool {
				domain, _, err := x.Bytes()
				return err != nil || hidden(domain)
			})
			answer.JSON, err = json.Marshal(e)
		}
		return replyOf(answer, client.View.Exceptions), err
	})
}

// exceptRemove is the command except remove.
type exceptRemove struct {
	ID string `arg:"" name:"id" help:"Of the exception, as except list shows it."`
	who
	remote
}

// Run ends an exception.
func (c exceptRemove) Run(ctx context.Context, p *program) error {
	return c.ask(p, func(server *client.Client) (reply, error) {
		if err := server.Remove(ctx, c.ID, c.name()); err != nil {
			return reply{}, err
		}
		encoded, err := json.Marshal(map[string]string{"id": c.ID})
		return reply{json: encoded, at: time.Now(), text: func(view client.View, w io.Writer) { view.Removed(w, c.ID) }}, err
	})
}
