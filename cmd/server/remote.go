package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/regularfile"
	"weir/internal/offline/explain"
	"weir/internal/operators/api"
	"weir/internal/operators/client"
	"weir/internal/operators/text"
)

// remote is embedded in commands that ask a running server.
type remote struct {
	Server    string        `env:"WEIR_SERVER" default:"http://127.0.0.1:6070" placeholder:"URL" group:"Server to ask:" help:"Debug port of a running server: host:port, http://host:port or https://host:port. By default http://127.0.0.1:6070."`
	TokenFile string        `name:"token-file" env:"WEIR_TOKEN_FILE,ADMIN_TOKEN_FILE" placeholder:"FILE" group:"Server to ask:" help:"File with the token that the server wants, if it wants one. Set it only for servers that may see the token."`
	CAFile    string        `name:"ca-file" env:"WEIR_CA_FILE" placeholder:"FILE" group:"Server to ask:" help:"Authorities that the certificate of an https server must come from, in PEM form. By default those of the system."`
	Timeout   time.Duration `default:"10s" group:"Server to ask:" help:"How long to wait for an answer. By default 10s."`
	Output    string        `enum:"text,json" default:"text" help:"Format of the answer: text, or json, which is the answer of the server."`
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

// asked is a command that asks a running server.
type asked interface {
	// ask asks it, and returns what to print.
	ask(ctx context.Context, server *client.Client) (reply, error)
	// flags returns how the server is asked.
	flags() remote
}

func (r remote) flags() remote { return r }

// reply is what a command prints, and what it exits with.
type reply struct {
	json []byte
	at   time.Time // by the clock of the server
	text func(view text.View, w io.Writer)
	note string // for stderr, beside the text
	code int
}

// runRemote runs a command that asks a running server.
func runRemote(ctx context.Context, command asked, stdout, stderr io.Writer) int {
	r := command.flags()
	answer, err := r.ask(ctx, command)
	if err == nil && r.Output == "json" {
		err = writeJSON(stdout, answer.json)
	}
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitFailed
	case err != nil:
		fmt.Fprintf(stderr, "weir: %v\n", r.advise(err))
		return exitUsage
	case r.Output != "json":
		if answer.note != "" {
			fmt.Fprintf(stderr, "note: %s\n", plaintext.Line(answer.note))
		}
		answer.text(text.View{Now: answer.at.Local(), Flags: r.again()}, stdout)
	}
	return answer.code
}

// ask connects to the server and lets the command ask.
func (r remote) ask(ctx context.Context, command asked) (reply, error) {
	options := client.Options{Server: r.Server, Timeout: r.Timeout, UserAgent: "weir/" + strings.Fields(version())[0]}
	if r.Timeout <= 0 {
		return reply{}, fmt.Errorf("--timeout: %v is not allowed, allowed is more than 0s", r.Timeout)
	}
	var err error
	if options.Token, err = r.token(); err != nil {
		return reply{}, fmt.Errorf("--token-file ($WEIR_TOKEN_FILE): %w", err)
	}
	if options.CAs, err = r.authorities(); err != nil {
		return reply{}, fmt.Errorf("--ca-file ($WEIR_CA_FILE): %w", err)
	}
	server, err := client.New(options)
	if err != nil {
		return reply{}, fmt.Errorf("--server ($WEIR_SERVER): %w", err)
	}
	return command.ask(ctx, server)
}

// token reads the token. Its errors do not show a path that may be the token itself.
func (r remote) token() (string, error) {
	if r.TokenFile == "" {
		return "", nil
	}
	f, err := os.Open(r.TokenFile)
	if err == nil {
		defer f.Close()
		var token string
		if token, err = client.ReadToken(f); err == nil {
			return token, nil
		}
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	if f == nil && mayBeToken(r.TokenFile) {
		return "", fmt.Errorf("%w (its name is not shown, it may be the token itself)", err)
	}
	return "", fmt.Errorf("%s: %w", plaintext.Line(r.TokenFile), err)
}

// mayBeToken reports whether what names no file may be a token that was given in its place:
// it is long enough for one, and in no directory.
func mayBeToken(name string) bool {
	const shortest = 16 // that servers take
	dir := filepath.Dir(name)
	if dir == "." || dir == string(filepath.Separator) {
		return len(name) >= shortest
	}
	_, noDir := os.Stat(dir)
	return noDir != nil && len(name) >= shortest
}

// authorities reads those that the certificate of the server must come from.
func (r remote) authorities() (*x509.CertPool, error) {
	if r.CAFile == "" {
		return nil, nil
	}
	text, err := regularfile.ReadPEM(r.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate in PEM form", r.CAFile)
	}
	return pool, nil
}

// advise adds to an error which flag may help.
func (r remote) advise(err error) error {
	switch {
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w; --server says where its debug port is", err)
	case errors.Is(err, client.ErrUnauthorized) && r.TokenFile == "":
		return fmt.Errorf("%w; --token-file names the file of its token", err)
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w; it does not accept the token of --token-file", err)
	default:
		return err
	}
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
			fmt.Fprintf(&b, " --%s %s", flag.name, text.Quote(plaintext.Line(flag.value)))
		}
	}
	return b.String()
}

// writeJSON writes JSON with line breaks, and without what a terminal obeys.
func writeJSON(w io.Writer, text []byte) error {
	var indented strings.Builder
	encoder := json.NewEncoder(&indented)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(json.RawMessage(text)); err != nil {
		return err
	}
	_, err := w.Write(plaintext.JSON([]byte(indented.String())))
	return err
}

// whom is embedded in commands about a descriptor.
type whom struct {
	Domain     anyBytes `arg:"" help:"Domain of the descriptor."`
	Descriptor anyBytes `arg:"" help:"Its entries, such as user=alice,path=/login. A backslash before a comma, an = or a backslash takes it as it is, and \\x0a is the byte 0a, as in the domain."`
}

func (w whom) read() (api.Descriptor, error) {
	domain, err := explain.ParseDomain(string(w.Domain))
	if err != nil {
		return api.Descriptor{}, fmt.Errorf("domain %q: %w", w.Domain, err)
	}
	entries, err := explain.ParseDescriptor(string(w.Descriptor))
	if err != nil {
		return api.Descriptor{}, fmt.Errorf("descriptor %q: %w", w.Descriptor, err)
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
	domain, err := explain.ParseDomain(string(*o.Domain))
	if err != nil {
		return nil, fmt.Errorf("domain %q: %w", *o.Domain, err)
	}
	return func(d string) bool { return d == domain }, nil
}
