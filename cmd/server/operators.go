package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"reflect"
	"strconv"
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/explain"
	"weir/internal/operators"
	"weir/internal/operators/client"
	"weir/internal/settings/follow"
)

// operatorCommands are the commands that ask a running server.
type operatorCommands struct {
	Status  statusCommand  `cmd:"" help:"Show the status of a running server. Shows its health, counters, rules, and requests and denials per second. Exits with 0, or 2 if the server does not answer."`
	Top     topCommand     `cmd:"" help:"Show who is denied most, and by which rule. Asks a running server. Exits with 0, or 2 if the server does not answer."`
	Denials denialsCommand `cmd:"" help:"Show the last denials. Asks a running server. Exits with 0, or 2 if the server does not answer."`
	Peek    peekCommand    `cmd:"" help:"Show the counters of a descriptor without counting a request. Asks a running server. Exits with 0, 1 if no rule matches, and 2 if the command line is invalid or the server does not answer."`
	Reset   resetCommand   `cmd:"" help:"Reset the counters of a descriptor to zero. Asks a running server. Exits with 0, 1 if no rule matches, and 2 if the command line is invalid or the server does not answer."`
	Except  exceptCommand  `cmd:"" help:"Add, list or remove exceptions to the rules. They apply on all servers that share a Redis."`
}

// serverGroup is the heading of the flags that say which server is asked, and how.
const serverGroup = "Server to ask:"

// remote is embedded in each of them.
type remote struct {
	Server    string        `env:"WEIR_SERVER" default:"http://127.0.0.1:6070" placeholder:"URL" group:"Server to ask:" help:"Debug port of a running server: host:port, http://host:port or https://host:port. The default is http://127.0.0.1:6070."`
	TokenFile string        `name:"token-file" env:"WEIR_TOKEN_FILE,ADMIN_TOKEN_FILE" placeholder:"FILE" group:"Server to ask:" help:"File with the operator token of the server. It is sent to the server, so set it only for servers that you trust."`
	CAFile    string        `name:"ca-file" env:"WEIR_CA_FILE" placeholder:"FILE" group:"Server to ask:" help:"Trusted certificate authorities for an https server, in PEM form. The default is the system's."`
	Timeout   time.Duration `default:"10s" group:"Server to ask:" help:"How long to wait for an answer."`
	Output    string        `enum:"text,json" default:"text" help:"Format of the answer: text or json."`
}

func (r remote) options() remote { return r }

// operatorCommand is what each of them is.
type operatorCommand interface {
	options() remote
	ask(context.Context, *client.Client) (*client.Answer, error)
}

// askServer asks the server what a command does, and prints the answer.
func askServer(ctx context.Context, p *program, command operatorCommand) error {
	r := command.options()
	server, err := r.connect(p)
	if err != nil {
		return err
	}
	answer, err := command.ask(ctx, server)
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Fprintf(p.stderr, "weir: %v\n", err)
		return exit(exitFailed)
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w; set --server to its debug port", err)
	case errors.Is(err, client.ErrUnauthorized) && r.TokenFile == "":
		return fmt.Errorf("%w; set --token-file to a file with its token", err)
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w; it does not accept the token in --token-file", err)
	case err != nil:
		return err
	}
	if answer.Note != "" {
		fmt.Fprintf(p.stderr, "note: %s\n", plaintext.Line(answer.Note))
	}
	return p.print(r.Output, answer, !answer.NoRule)
}

func (r remote) connect(p *program) (*client.Client, error) {
	recorded, _ := build()
	options := client.Options{Server: r.Server, Timeout: r.Timeout, UserAgent: "weir/" + recorded.Version}
	var err error
	if r.TokenFile != "" {
		if options.Token, err = readToken(r.TokenFile); err != nil {
			return nil, fmt.Errorf("--token-file ($WEIR_TOKEN_FILE): %w", err)
		}
	}
	if r.CAFile != "" {
		config, err := readTLS(follow.TLSOptions{CAFile: r.CAFile})
		if err != nil {
			return nil, fmt.Errorf("--ca-file ($WEIR_CA_FILE): %w", err)
		}
		options.CAs = config.RootCAs
	}
	for _, passed := range p.parsed.Path { // the flags that suggested commands need, too
		if f := passed.Flag; f != nil && !passed.Resolved && f.Group != nil && f.Group.Title == serverGroup && f.Target.Kind() == reflect.String {
			options.Flags += fmt.Sprintf(" --%s %s", f.Name, explain.Quote(plaintext.Line(f.Target.String())))
		}
	}
	server, err := client.New(options)
	if err != nil {
		return nil, fmt.Errorf("--server ($WEIR_SERVER): %w", err)
	}
	return server, nil
}

// readToken reads the token in a file, or in what a pipe brings. Its errors do not show the
// name, which may be the token itself.
func readToken(name string) (string, error) {
	text, err := os.ReadFile(name)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return "", failed.Err
	}
	words := strings.Fields(string(text))
	if len(words) != 1 {
		return "", errors.New("the file must contain one token")
	}
	return words[0], nil
}

// who is embedded in commands that change something.
type who struct {
	By string `placeholder:"NAME" help:"Who does this, for the audit log of the server. The default is your user name."`
}

// name returns who does this.
func (w who) name() string {
	u, err := user.Current()
	if err != nil {
		u = new(user.User)
	}
	return cmp.Or(w.By, os.Getenv("USER"), u.Username, fmt.Sprintf("uid %d", os.Getuid()))
}

// scope is embedded in commands that list something.
type scope struct {
	Domain domain `arg:"" optional:"" help:"Show only this domain."`
	This   bool   `help:"Show only the server that is asked, not all that share its Redis."`
}

func (s scope) of() client.Scope { return client.Scope{Domain: string(s.Domain), This: s.This} }

type statusCommand struct{ remote }

func (c statusCommand) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	return server.Status(ctx)
}

type topCommand struct {
	scope
	Window string `enum:"minute,hour" default:"hour" help:"Time span that text shows: the last minute or hour."`
	remote
}

func (c topCommand) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	return server.Top(ctx, c.of(), c.Window == "minute")
}

type denialsCommand struct {
	scope
	N uint16 `short:"n" default:"20" placeholder:"N" help:"Show at most N, the newest."`
	remote
}

func (c denialsCommand) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	return server.Denials(ctx, c.of(), int(c.N))
}

type peekCommand struct {
	whom
	remote
}

func (c peekCommand) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	return server.Peek(ctx, c.descriptor())
}

type resetCommand struct {
	whom
	who
	remote
}

func (c resetCommand) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	return server.Reset(ctx, c.descriptor(), c.name())
}

// exceptCommand is the command except.
type exceptCommand struct {
	Add    exceptAdd    `cmd:"" help:"Add an exception to the rules. It needs --allow, --deny or --amount, applies on all servers that share the Redis, takes precedence over rules and bans, and expires. Exits with 0 if it was added, and 2 if not."`
	List   exceptList   `cmd:"" help:"List the exceptions in force, newest first. Exits with 0, or 2 if the server does not answer."`
	Remove exceptRemove `cmd:"" help:"Remove an exception. Exits with 0 if it was removed, 1 if there is none, and 2 if the server does not answer."`
}

type exceptAdd struct {
	whom
	Allow  bool          `xor:"effect" help:"Allow everything."`
	Deny   bool          `xor:"effect" help:"Deny everything."`
	Amount factor        `xor:"effect" placeholder:"10x" help:"Multiply all limits, by 0.001x to 1000000x."`
	For    time.Duration `required:"" placeholder:"2h" help:"How long it applies, such as 30m or 12h."`
	Reason string        `required:"" placeholder:"TEXT" help:"Why, for others and for the audit log of the server."`
	who
	remote
}

// factor is by what limits are multiplied.
type factor float64

// UnmarshalText reads a number with or without an x behind it.
func (f *factor) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "x"), 64)
	if err != nil || n != n {
		return fmt.Errorf("%q is not a number; use 0.001x to 1000000x, such as 10x", text)
	}
	*f = factor(n)
	return nil
}

func (c exceptAdd) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	x := operators.NewException{Descriptor: c.descriptor(), Effect: operators.Amount, Factor: float64(c.Amount), For: c.For.Seconds(), By: c.name(), Reason: c.Reason}
	switch {
	case c.Allow:
		x.Effect = operators.Allow
	case c.Deny:
		x.Effect = operators.Deny
	case c.Amount == 0:
		return nil, errors.New("one of --allow, --deny and --amount is required")
	}
	return server.Add(ctx, x)
}

type exceptList struct {
	scope
	remote
}

func (c exceptList) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	return server.Exceptions(ctx, c.of())
}

type exceptRemove struct {
	ID string `arg:"" name:"id" help:"ID of the exception, as except list shows it."`
	who
	remote
}

func (c exceptRemove) ask(ctx context.Context, server *client.Client) (*client.Answer, error) {
	return server.Remove(ctx, c.ID, c.name())
}
