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
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/client"
)

// operatorCommands are the commands that ask a running server.
type operatorCommands struct {
	Status  statusCommand  `cmd:"" help:"Show how a running server is. Shows its health, counters, rules and denials a second. Exits with 0, or 2 if the server does not answer."`
	Top     topCommand     `cmd:"" help:"Show who is denied most, and by which rule. Asks a running server. Exits with 0, or 2 if the server does not answer."`
	Denials denialsCommand `cmd:"" help:"Show the last denials. Asks a running server. Exits with 0, or 2 if the server does not answer."`
	Peek    peekCommand    `cmd:"" help:"Show the counters of a descriptor, without counting. Asks a running server. Exits with 0, 1 if no rule matches, and 2 if the command is wrong or the server does not answer."`
	Reset   resetCommand   `cmd:"" help:"Set the counters of a descriptor to zero. Asks a running server. Exits with 0, 1 if no rule matches, and 2 if the command is wrong or the server does not answer."`
	Except  exceptCommand  `cmd:"" help:"Add, list or remove exceptions from the rules. They hold on all servers that share a Redis."`
}

// remote is embedded in each of them.
type remote struct {
	Server    string        `env:"WEIR_SERVER" default:"http://127.0.0.1:6070" placeholder:"URL" group:"Server to ask:" help:"Debug port of a running server: host:port, http://host:port or https://host:port. By default http://127.0.0.1:6070."`
	TokenFile string        `name:"token-file" env:"WEIR_TOKEN_FILE,ADMIN_TOKEN_FILE" placeholder:"FILE" group:"Server to ask:" help:"File with the token that the server wants, if it wants one. Set it only for servers that may see the token."`
	CAFile    string        `name:"ca-file" env:"WEIR_CA_FILE" placeholder:"FILE" group:"Server to ask:" help:"Authorities that the certificate of an https server must come from, in PEM form. By default those of the system."`
	Timeout   time.Duration `default:"10s" group:"Server to ask:" help:"How long to wait for an answer. By default 10s."`
	Output    string        `enum:"text,json" default:"text" help:"Format of the answer: text, or json, which is the answer of the server."`
}

// ask connects to a server, asks it a question, and prints the answer: as JSON, or by text.
func ask[T any](r remote, p *program, question func(*client.Client) (client.Answer[T], error), text func(client.View, io.Writer, *T)) (value T, err error) {
	server, err := r.connect()
	if err != nil {
		return value, err
	}
	answer, err := question(server)
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Fprintf(p.stderr, "weir: %v\n", err)
		err = exit(exitFailed)
	case errors.Is(err, client.ErrUnreachable):
		err = fmt.Errorf("%w; --server says where its debug port is", err)
	case errors.Is(err, client.ErrUnauthorized) && r.TokenFile == "":
		err = fmt.Errorf("%w; --token-file names the file of its token", err)
	case errors.Is(err, client.ErrUnauthorized):
		err = fmt.Errorf("%w; it does not accept the token of --token-file", err)
	case err == nil && r.Output == "json":
		err = writeJSON(p.stdout, answer.JSON)
	case err == nil:
		text(client.View{Now: answer.At.Local(), Flags: r.again()}, p.stdout, &answer.Value)
	}
	return answer.Value, err
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

func (w whom) read() (d operators.Descriptor, err error) {
	domain, err := w.Domain.domain()
	if err != nil {
		return d, err
	}
	entries, err := w.Descriptor.entries()
	if err != nil {
		return d, err
	}
	return operators.NewDescriptor(domain, entries), nil
}

// replicas is embedded in commands about all servers that share one Redis.
type replicas struct {
	This bool `help:"Of the server that is asked alone, not of all that share its Redis."`
}

// statusCommand is the command status.
type statusCommand struct{ remote }

// Run shows how a server is.
func (c statusCommand) Run(ctx context.Context, p *program) error {
	var url string
	_, err := ask(c.remote, p, func(server *client.Client) (client.Answer[api.Status], error) {
		url = server.Server()
		return server.Status(ctx)
	}, func(view client.View, w io.Writer, s *api.Status) { view.Status(w, url, s) })
	return err
}

// denied is embedded in commands about what was denied.
type denied struct {
	Domain *anyBytes `arg:"" optional:"" help:"Show this domain only."`
	replicas
}

// read asks what was denied, and leaves what is of the domains that are shown.
func (c denied) read(ctx context.Context, server *client.Client) (answer client.Answer[operators.Denials], err error) {
	hidden, err := others(c.Domain)
	if err == nil {
		answer, err = server.Denials(ctx, !c.This)
	}
	d := &answer.Value
	if answer.At = d.At; err != nil || c.Domain == nil {
		return answer, err
	}
	for _, w := range []*operators.Window{&d.Minute, &d.Hour} {
		w.Limits = slices.DeleteFunc(w.Limits, func(l operators.LimitDenials) bool { return hidden(l.Domain) })
	}
	d.Last = slices.DeleteFunc(d.Last, func(e operators.LastDenial) bool { return hidden(e.Domain) })
	answer.JSON, err = json.Marshal(d)
	return answer, err
}

// others returns whether a domain is another one than that which alone is shown, nil: all are.
func others(shown *anyBytes) (isOther func(domain string) bool, err error) {
	if shown == nil {
		return func(string) bool { return false }, nil
	}
	domain, err := shown.domain()
	return func(d string) bool { return d != domain }, err
}

// topCommand is the command top.
type topCommand struct {
	denied
	Window string `enum:"minute,hour" default:"hour" help:"What is shown as text: what was denied in the last minute or hour. By default hour."`
	remote
}

// Run shows who is denied most.
func (c topCommand) Run(ctx context.Context, p *program) error {
	_, err := ask(c.remote, p, func(server *client.Client) (client.Answer[operators.Denials], error) {
		return c.read(ctx, server)
	}, func(view client.View, w io.Writer, d *operators.Denials) {
		window := &d.Hour
		if c.Window == "minute" {
			window = &d.Minute
		}
		view.Top(w, d, window)
	})
	return err
}

// denialsCommand is the command denials.
type denialsCommand struct {
	denied
	N int `short:"n" default:"20" placeholder:"N" help:"Show so many at most, of the 100 that a server keeps. By default 20."`
	remote
}

// Run shows the last denials.
func (c denialsCommand) Run(ctx context.Context, p *program) error {
	if c.N < 1 {
		return fmt.Errorf("-n: %d is not allowed, allowed is 1 or more", c.N)
	}
	_, err := ask(c.remote, p, func(server *client.Client) (client.Answer[operators.Denials], error) {
		answer, err := c.read(ctx, server)
		d := &answer.Value
		d.Last = d.Last[:min(len(d.Last), c.N)]
		if err == nil {
			answer.JSON, err = json.Marshal(d)
		}
		return answer, err
	}, client.View.Denials)
	return err
}

// peekCommand is the command peek.
type peekCommand struct {
	whom
	remote
}

// Run shows counters.
func (c peekCommand) Run(ctx context.Context, p *program) error {
	return counters(c.remote, p, c.whom, false, func(server *client.Client, d operators.Descriptor) (client.Answer[operators.Counters], error) {
		return server.Peek(ctx, d)
	})
}

// resetCommand is the command reset.
type resetCommand struct {
	whom
	who
	remote
}

// Run sets counters to zero.
func (c resetCommand) Run(ctx context.Context, p *program) error {
	return counters(c.remote, p, c.whom, true, func(server *client.Client, d operators.Descriptor) (client.Answer[operators.Counters], error) {
		return server.Reset(ctx, d, c.name())
	})
}

// counters asks a question about the counters of a descriptor, which may reset them.
func counters(r remote, p *program, of whom, reset bool, question func(*client.Client, operators.Descriptor) (client.Answer[operators.Counters], error)) error {
	d, err := of.read()
	if err != nil {
		return err
	}
	answer, err := ask(r, p, func(server *client.Client) (client.Answer[operators.Counters], error) {
		return question(server, d)
	}, func(view client.View, w io.Writer, c *operators.Counters) { view.Counters(w, c, reset) })
	if err == nil && answer.Rule == "" {
		return exit(exitFailed)
	}
	return err
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
	d, err := c.read()
	switch {
	case err != nil:
		return err
	case c.For <= 0:
		return fmt.Errorf("--for: %v is not allowed, allowed is more than 0s", c.For)
	case strings.TrimSpace(c.Reason) == "":
		return errors.New("--reason: it is empty")
	}
	x := operators.NewException{Descriptor: d, Effect: operators.Amount, Factor: float64(c.Amount), For: c.For.Seconds(), By: c.name(), Reason: c.Reason}
	if c.Allow {
		x.Effect = operators.Allow
	} else if c.Deny {
		x.Effect = operators.Deny
	}
	_, err = ask(c.remote, p, func(server *client.Client) (client.Answer[operators.Exception], error) {
		return server.Add(ctx, x)
	}, func(view client.View, w io.Writer, x *operators.Exception) {
		if x.Note != "" {
			fmt.Fprintf(p.stderr, "note: %s\n", plaintext.Line(x.Note))
		}
		view.Added(w, x)
	})
	return err
}

// exceptList is the command except list.
type exceptList struct {
	Domain *anyBytes `arg:"" optional:"" help:"Show this domain only."`
	replicas
	remote
}

// Run lists exceptions.
func (c exceptList) Run(ctx context.Context, p *program) error {
	hidden, err := others(c.Domain)
	if err != nil {
		return err
	}
	_, err = ask(c.remote, p, func(server *client.Client) (client.Answer[operators.ExceptionList], error) {
		answer, err := server.Exceptions(ctx, !c.This)
		if e := &answer.Value; err == nil && c.Domain != nil {
			e.Exceptions = slices.DeleteFunc(e.Exceptions, func(x operators.Exception) bool {
				domain, _, err := x.Bytes()
				return err != nil || hidden(domain)
			})
			answer.JSON, err = json.Marshal(e)
		}
		return answer, err
	}, client.View.Exceptions)
	return err
}

// exceptRemove is the command except remove.
type exceptRemove struct {
	ID string `arg:"" name:"id" help:"Of the exception, as except list shows it."`
	who
	remote
}

// Run ends an exception.
func (c exceptRemove) Run(ctx context.Context, p *program) error {
	_, err := ask(c.remote, p, func(server *client.Client) (a client.Answer[string], err error) {
		if err = server.Remove(ctx, c.ID, c.name()); err == nil {
			a.JSON, err = json.Marshal(map[string]string{"id": c.ID})
		}
		return a, err
	}, func(view client.View, w io.Writer, _ *string) { view.Removed(w, c.ID) })
	return err
}
