package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/explain"
	"weir/internal/operators/api"
	"weir/internal/operators/client"
	"weir/internal/operators/denials"
)

// asked is a command that asks a running server.
type asked interface {
	// ask asks it, and returns what to print.
	ask(ctx context.Context, server *client.Client) (reply, error)
	// flags returns how the server is asked.
	flags() remote
}

// reply is what such a command prints, and what it exits with.
type reply struct {
	json []byte
	at   time.Time // by the clock of the server
	text func(view client.View, w io.Writer)
	note string // for stderr, beside the text
	exit error
}

// remote is embedded in commands that ask a running server.
type remote struct {
	Server    string        `env:"WEIR_SERVER" default:"http://127.0.0.1:6070" placeholder:"URL" group:"Server to ask:" help:"Debug port of a running server: host:port, http://host:port or https://host:port. By default http://127.0.0.1:6070."`
	TokenFile string        `name:"token-file" env:"WEIR_TOKEN_FILE,ADMIN_TOKEN_FILE" placeholder:"FILE" group:"Server to ask:" help:"File with the token that the server wants, if it wants one. Set it only for servers that may see the token."`
	CAFile    string        `name:"ca-file" env:"WEIR_CA_FILE" placeholder:"FILE" group:"Server to ask:" help:"Authorities that the certificate of an https server must come from, in PEM form. By default those of the system."`
	Timeout   time.Duration `default:"10s" group:"Server to ask:" help:"How long to wait for an answer. By default 10s."`
	Output    string        `enum:"text,json" default:"text" help:"Format of the answer: text, or json, which is the answer of the server."`
}

func (r remote) flags() remote { return r }

// ask connects to a server, lets a command ask it, and prints the answer.
func ask(ctx context.Context, command asked, p *program) error {
	r := command.flags()
	server, err := r.connect()
	if err != nil {
		return err
	}
	answer, err := command.ask(ctx, server)
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
		if err := writeJSON(p.stdout, answer.json); err != nil {
			return err
		}
		return answer.exit
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
		if options.Token, err = readToken(r.TokenFile); err != nil {
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

// readToken reads the token in a file. Its errors do not show a name of no file that is
// long enough for a token and in no directory: the token may have been given in its place.
func readToken(name string) (token string, err error) {
	f, err := os.Open(name)
	if err == nil {
		defer f.Close()
		token, err = client.ReadToken(f)
	}
	if err == nil {
		return token, nil
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err // without the name
	}
	const shortest = 16 // that servers take
	dir := filepath.Dir(name)
	_, noDir := os.Stat(dir)
	if f == nil && len(name) >= shortest && (noDir != nil || dir == "." || dir == string(filepath.Separator)) {
		return "", fmt.Errorf("%w (its name is not shown, it may be the token itself)", err)
	}
	return "", fmt.Errorf("%s: %w", plaintext.Line(name), err)
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
	if w.By != "" {
		return w.By
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
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

// read returns whether a domain is to be shown.
func (o ofDomain) read() (shown func(domain string) bool, err error) {
	if o.Domain == nil {
		return func(string) bool { return true }, nil
	}
	domain, err := o.Domain.domain()
	return func(d string) bool { return d == domain }, err
}

// replicas is embedded in commands about all servers that share one Redis.
type replicas struct {
	This bool `help:"Of the server that is asked alone, not of all that share its Redis."`
}

// statusCommand is the command status.
type statusCommand struct{ remote }

func (statusCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	answer, err := server.Status(ctx)
	return reply{json: answer.JSON, at: answer.At, text: func(view client.View, w io.Writer) {
		view.Status(w, server.Server(), &answer.Value)
	}}, err
}

// topCommand is the command top.
type topCommand struct {
	ofDomain
	replicas
	Window string `enum:"minute,hour" default:"hour" help:"What is shown as text: what was denied in the last minute or hour. By default hour."`
	remote
}

func (t topCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	answer, err := askDenials(ctx, server, t.ofDomain, t.replicas)
	if err != nil {
		return reply{}, err
	}
	d := &answer.Value
	if t.Domain != nil {
		answer.JSON, err = json.Marshal(d)
	}
	window := &d.Hour
	if t.Window == "minute" {
		window = &d.Minute
	}
	return reply{json: answer.JSON, at: d.At, text: func(view client.View, w io.Writer) { view.Top(w, d, window) }}, err
}

// askDenials asks what was denied, and leaves what is of the domains that are shown.
func askDenials(ctx context.Context, server *client.Client, of ofDomain, by replicas) (answer client.Answer[api.Denials], err error) {
	shown, err := of.read()
	if err == nil {
		answer, err = server.Denials(ctx, !by.This)
	}
	d := &answer.Value
	for _, w := range []*denials.Window{&d.Minute, &d.Hour} {
		w.Limits = slices.DeleteFunc(w.Limits, func(l denials.Limit) bool { return !shown(l.Domain) })
	}
	d.Last = slices.DeleteFunc(d.Last, func(e denials.Event) bool { return !shown(e.Domain) })
	return answer, err
}

// denialsCommand is the command denials.
type denialsCommand struct {
	ofDomain
	replicas
	N int `short:"n" default:"20" placeholder:"N" help:"Show so many at most, of the 100 that a server keeps. By default 20."`
	remote
}

func (c denialsCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	if c.N < 1 {
		return reply{}, fmt.Errorf("-n: %d is not allowed, allowed is 1 or more", c.N)
	}
	answer, err := askDenials(ctx, server, c.ofDomain, c.replicas)
	if err != nil {
		return reply{}, err
	}
	d := &answer.Value
	d.Last = d.Last[:min(len(d.Last), c.N)]
	encoded, err := json.Marshal(d)
	return reply{json: encoded, at: d.At, text: func(view client.View, w io.Writer) { view.Denials(w, d) }}, err
}

// peekCommand is the command peek.
type peekCommand struct {
	whom
	remote
}

func (c peekCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	d, err := c.read()
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Peek(ctx, d)
	return countersReply(answer, false), err
}

// resetCommand is the command reset.
type resetCommand struct {
	whom
	who
	remote
}

func (c resetCommand) ask(ctx context.Context, server *client.Client) (reply, error) {
	d, err := c.read()
	if err != nil {
		return reply{}, err
	}
	answer, err := server.Reset(ctx, d, c.name())
	return countersReply(answer, true), err
}

// countersReply shows counters.
func countersReply(answer client.Answer[api.Counters], reset bool) reply {
	r := reply{json: answer.JSON, at: answer.At, text: func(view client.View, w io.Writer) {
		view.Counters(w, &answer.Value, reset)
	}}
	if answer.Value.Rule == "" {
		r.exit = exit(exitFailed)
	}
	return r
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

func (c exceptAdd) ask(ctx context.Context, server *client.Client) (reply, error) {
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
	return reply{json: answer.JSON, at: answer.At, note: answer.Value.Note, text: func(view client.View, w io.Writer) { view.Added(w, &answer.Value) }}, err
}

// exceptList is the command except list.
type exceptList struct {
	ofDomain
	replicas
	remote
}

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
	return reply{json: answer.JSON, at: answer.At, text: func(view client.View, w io.Writer) { view.Exceptions(w, e) }}, err
}

// exceptRemove is the command except remove.
type exceptRemove struct {
	ID string `arg:"" name:"id" help:"Of the exception, as except list shows it."`
	who
	remote
}

func (c exceptRemove) ask(ctx context.Context, server *client.Client) (reply, error) {
	if err := server.Remove(ctx, c.ID, c.name()); err != nil {
		return reply{}, err
	}
	encoded, err := json.Marshal(map[string]string{"id": c.ID})
	return reply{json: encoded, at: time.Now(), text: func(view client.View, w io.Writer) { view.Removed(w, c.ID) }}, err
}
