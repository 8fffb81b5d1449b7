// Command server is weir: it serves Envoy's rate limit requests, checks, explains and tests
// rules, load-tests servers, and queries and controls running servers. It is thin: it turns
// flags into settings, and the packages below internal do the rest.
//
//	serve.go       serve: the life of the process and its signals; the log is in log.go, the
//	               number of processors in processors.go
//	check.go       check
//	rules.go       validate, explain, test, schema
//	traffic.go     simulate, descriptors, bench
//	operators.go   status, top, denials, peek, reset, assign, assigned, except
//	arguments.go   the parser of the command line, help, and errors in arguments
//	completion.go  completion
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	_ "time/tzdata" // rules name time zones, and an image FROM scratch has no time zone data

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"weir/internal/descriptors/plaintext"
	"weir/internal/server"
	"weir/internal/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process, unless serve handles it
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "ratelimit" {
		args = withoutUnknown(args, os.Stderr)
	}
	os.Exit(run(ctx, args, os.Stdout, os.Stderr))
}

// These are the exit codes of the process. The output of "weir help" explains them.
const (
	exitOK     = 0
	exitFailed = 1 // problems were found, no rule matches, or there is no descriptor
	exitUsage  = 2 // the usage is wrong, an input cannot be read, or the output cannot be printed
)

// exit is the error of a command that has already printed the reason. Its value is the exit code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// commandLine has a field for each command. The parser derives flags, help and completion
// from the tags of the fields. The commands for operators are in operators.go.
type commandLine struct {
	Serve       settings.Settings `cmd:"" help:"Serve rate limit requests. This is the default command."`
	Check       checking          `cmd:"" help:"Check everything that serve needs. Reads settings, secrets, certificates and rules, connects to Redis and to the control plane, and reports all problems. It serves nothing."`
	Validate    validation        `cmd:"" help:"Check rules."`
	Explain     explanation       `cmd:"" help:"Explain what happens to a descriptor. Shows which rules match, which one applies, its limits and their counters."`
	Descriptors descriptorsOf     `cmd:"" help:"Show which descriptors Envoy sends for a request. Reads them from Envoy's own configuration."`
	Test        ruleTests         `cmd:"" help:"Run unit tests of rules."`
	Simulate    simulation        `cmd:"" help:"Replay access logs against rules before you enforce them. If a log is damaged, the report covers what comes before the damage."`
	Bench       benchmark         `cmd:"" help:"Load-test a server of Envoy's RateLimitService."`
	operatorCommands
	Schema     schema         `cmd:"" help:"Print the JSON Schema of rule files, for editors."`
	Completion completion     `cmd:"" help:"Print a completion script for a shell. The script asks this program for completions."`
	Version    versionCommand `cmd:"" help:"Print the version."`
	Help       helpCommand    `cmd:"" help:"Show flags and examples: weir help <command>"`

	VersionFlag kong.VersionFlag `name:"version" short:"v" help:"Print the version."`
}

// program is the parsed command line and the output of a running command.
type program struct {
	parsed         *kong.Context
	stdout, stderr io.Writer
	onTerminal     bool // whether stdout is a terminal
}

// print prints the result of a command in the format of its flag --output. It returns
// exitFailed if the result was printed but good is false.
func (p *program) print(format string, result interface{ WriteText(io.Writer) error }, good bool) error {
	write := result.WriteText
	if format == "json" {
		write = func(w io.Writer) error { return writeJSON(w, result) }
	}
	err := write(p.stdout)
	if err == nil && !good {
		err = exit(exitFailed)
	}
	return err
}

// writeJSON writes a value as indented JSON and escapes control characters of terminals.
func writeJSON(w io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(plaintext.JSON(append(text, '\n')))
	return err
}

// output remembers the first error of a writer and skips all later writes, so that callers
// need not check each line that they print.
type output struct {
	w   io.Writer
	err error
}

// Write implements io.Writer. It never fails.
func (o *output) Write(p []byte) (int, error) {
	if o.err == nil {
		_, o.err = o.w.Write(p)
	}
	return len(p), nil
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// run runs the command in args until it finishes or ctx is done, and returns the exit code.
// Every command except serve fails if its output cannot be printed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	out := &output{w: stdout}
	defer func() {
		if out.err != nil {
			fmt.Fprintf(stderr, "weir: printing: %v\n", out.err)
			code = exitUsage
		}
	}()
	var line commandLine
	helped := false
	parser := newParser(&line, out, stderr, func(int) { helped = true })
	parsed, err := parser.Parse(normalize(args))
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && line.Check.Invalid != nil {
		parsed, err = failed.Context, nil // the command check also reports these problems
	}
	switch {
	case helped: // even if other arguments are invalid
		return exitOK
	case err != nil:
		refuse(stderr, parser, args, err)
		return exitUsage
	case parsed.Selected().Name == "serve":
		return serve(ctx, line.Serve, stdout, stderr) // serve continues if its stdout fails
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	p := &program{parsed, out, stderr, isTerminal(stdout)}
	err = within(ctx, grace, func() error { return parsed.Run(p) })
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	if err != nil {
		show(ctx, func() { fmt.Fprintf(stderr, "weir: %s\n", plaintext.Lines(err.Error())) })
		return exitUsage
	}
	return exitOK
}

// grace is the time that a command has to stop after a signal. bench needs up to a second.
const grace = 2 * time.Second

// The linker sets release, the version, with -ldflags "-X main.release=...". For a build without
// Git history, such as the image's, it also sets commit and date, the time of the commit.
var release, commit, date string

type versionCommand struct{}

func (versionCommand) Run(p *program) error { //nolint:unparam // has the signature of all commands
	fmt.Fprintln(p.stdout, "weir", build())
	return nil
}

// build describes this build. If release is empty, the version is the module's, or "unknown".
func build() server.Build {
	b := server.Build{Version: release, Commit: commit, Time: date, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(release, info.Main.Version, "unknown")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// checkDistinct returns an error if name, the file that a flag names, is one of others, the
// other input and output files of the command.
func checkDistinct(flag, name string, others ...string) error {
	named, err := os.Stat(name) // fails if the file does not exist yet
	old := err == nil && named.Mode().IsRegular()
	for _, other := range others {
		info, err := os.Stat(other)
		if name != "" && other != "" && filepath.Clean(other) == filepath.Clean(name) || old && err == nil && os.SameFile(info, named) {
			return fmt.Errorf("%s: %s is the same file as %s", flag, name, other)
		}
	}
	return nil
}

// writeFile creates or replaces the file name, or does nothing if name is empty. Commands call it
// last, so that a command that fails leaves the file unchanged.
func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
