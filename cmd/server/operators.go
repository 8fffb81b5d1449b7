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
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators/client"
	"weir/internal/plan/explain"
	"weir/internal/settings/follow"
)

// operatorCommands are the commands that query or change a running server.
type operatorCommands struct {
	Status   query[client.Status]      `cmd:"" help:"Show the status of a running server. Shows what is wrong, the worst first, and its health, counters, rules, requests and denials per second, and the servers on its Redis. Exits with 1 if a problem is red."`
	Top      watched                   `cmd:"" help:"Show who is denied most, and by which rule. With --budgets, shows which budgets are used most. Asks a running server."`
	Denials  query[client.Denials]     `cmd:"" help:"Show the last denials. Asks a running server."`
	Peek     query[client.Peek]        `cmd:"" help:"Show the counters and recent denials of a descriptor. Counts no request. Asks a running server."`
	Reset    query[client.Reset]       `cmd:"" help:"Reset the counters of a descriptor to zero. Asks a running server."`
	Assign   query[client.Assign]      `cmd:"" help:"Assign an amount to a descriptor, in place of its rule's. Also assigns the amounts of a file. Applies on all servers that share a Redis within a second. Exits with 1 if a line is refused."`
	Assigned query[client.Assignments] `cmd:"" help:"List assigned amounts. Asks a running server."`
	Except   struct {
		Add    query[client.Add]        `cmd:"" help:"Add an exception to the rules. It needs --allow, --deny or --amount, applies on all servers that share the Redis, takes precedence over rules and bans, and expires."`
		List   query[client.Exceptions] `cmd:"" help:"List the exceptions in force, newest first."`
		Remove query[client.Remove]     `cmd:"" help:"Remove an exception."`
	} `cmd:"" help:"Add, list or remove exceptions to the rules. They apply on all servers that share a Redis."`
}

// query is a command that sends a question to a server.
type query[Q client.Question] struct {
	Question Q      `embed:""`
	Server   remote `embed:"" group:"Server to ask:"`
	Output   string `enum:"text,json" default:"text" help:"Format of the answer: text or json."`
}

// remote contains the flags that select the server and the connection to it.
type remote struct {
	Server    string        `env:"WEIR_SERVER" default:"http://127.0.0.1:6070" placeholder:"URL" help:"Debug port of a running server: host:port, http://host:port or https://host:port. The default is http://127.0.0.1:6070."`
	TokenFile string        `name:"token-file" env:"WEIR_TOKEN_FILE,ADMIN_TOKEN_FILE" placeholder:"FILE" help:"File with the operator token of the server. It is sent to the server, so set it only for servers that you trust."`
	CAFile    string        `name:"ca-file" env:"WEIR_CA_FILE" placeholder:"FILE" help:"Trusted certificate authorities for an https server, in PEM form. The default is the system's."`
	Timeout   time.Duration `default:"10s" help:"How long to wait for an answer."`
}

func (a query[Q]) Run(ctx context.Context, p *program) error {
	server, err := a.Server.connect(p)
	if err != nil {
		return err
	}
	answer, err := server.Ask(ctx, a.Question)
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Fprintf(p.stderr, "weir: %v\n", err)
		return exit(exitFailed)
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w; set --server to its debug port", err)
	case errors.Is(err, client.ErrUnauthorized) && a.Server.TokenFile == "":
		return fmt.Errorf("%w; set --token-file to a file with its token", err)
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w; it does not accept the token in --token-file", err)
	case err != nil:
		return err
	}
	if answer.Note != "" {
		fmt.Fprintf(p.stderr, "note: %s\n", plaintext.Line(answer.Note))
	}
	answer.Terminal = p.onTerminal
	return p.print(a.Output, answer, !answer.Bad)
}

// watched is the command top.
type watched struct {
	query[client.Top]
	Watch bool `help:"Show it again every two seconds, until Ctrl-C."`
}

func (w watched) Run(ctx context.Context, p *program) error {
	for {
		if w.Watch && p.onTerminal {
			fmt.Fprint(p.stdout, "\x1b[H\x1b[2J") // clears the screen
		}
		err := w.query.Run(ctx, p)
		if !w.Watch || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}

func (r remote) connect(p *program) (*client.Client, error) {
	options := client.Options{Server: r.Server, Timeout: r.Timeout, UserAgent: "weir/" + build().Version}
	if p.onTerminal {
		options.Progress = p.stderr
	}
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
	for _, passed := range p.parsed.Path { // the commands that an answer suggests need the same flags
		if f := passed.Flag; f != nil && !passed.Resolved && f.Group != nil && f.Target.Kind() == reflect.String {
			options.Flags += fmt.Sprintf(" --%s %s", f.Name, explain.Quote(plaintext.Line(f.Target.String())))
		}
	}
	server, err := client.New(options)
	if err != nil {
		return nil, fmt.Errorf("--server ($WEIR_SERVER): %w", err)
	}
	return server, nil
}

// readToken reads the token from a file or a pipe. Its errors omit the file's name, because a
// user may have given the token instead of a name.
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

// userName returns the name of the user who runs the program, for audit logs.
func userName() string {
	u, err := user.Current()
	if err != nil {
		u = new(user.User)
	}
	return cmp.Or(os.Getenv("USER"), u.Username, fmt.Sprintf("uid %d", os.Getuid()))
}
