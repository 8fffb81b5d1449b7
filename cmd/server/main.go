// Command server is weir: it serves Envoy's rate limit requests, checks, explains and tests
// rules, load-tests servers, and asks and steers running ones. It is thin: flags become
// settings, and the rooms do the rest.
//
//	serve.go       serve: the life of the process and its signals; its log in log.go
//	rules.go       validate, explain, test, schema
//	traffic.go     simulate, descriptors, bench
//	operators.go   status, top, denials, peek, reset, except
//	arguments.go   the parser of the command line, help, and what is wrong with arguments
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
	_ "time/tzdata" // rules name time zones, and an image FROM scratch has no data of them

	"github.com/alecthomas/kong"

	"weir/internal/descriptors/plaintext"
	"weir/internal/server"
	"weir/internal/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, unless serve listens
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// What the process exits with.
const (
	exitOK     = 0
	exitFailed = 1 // also: no rule, no descriptor
	exitUsage  = 2 // invalid flags, variables or arguments, or nowhere to print
)

// exit is the error of a command that has said what is wrong: the code to exit with.
type exit int

// Error implements error.
func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// commandLine is what can be asked of the program: a row for each command, from which
// its flags, help and completion follow. Those for operators are in operators.go.
type commandLine struct {
	Serve       settings.Settings `cmd:"" help:"Serve rate limit requests. This is the default command."`
	Validate    validation        `cmd:"" help:"Check rules. Exits with 0 if they are valid, 1 if they have problems, which it prints one per line, and 2 if some cannot be read."`
	Explain     explanation       `cmd:"" help:"Explain what happens to a descriptor. Shows which rules match, which one applies, its limits and their counters. Exits with 0 if a rule applies, 1 if none does, and 2 if the command line or the rules are invalid."`
	Descriptors descriptorsOf     `cmd:"" help:"Show which descriptors Envoy sends for a request. Reads them from Envoy's own configuration. Exits with 0 if it sends some, 1 if it sends none, and 2 if the command line or the configuration is invalid."`
	Test        ruleTests         `cmd:"" help:"Run unit tests of rules. Exits with 0 if all pass, 1 if one fails, and 2 if a file or the command line is invalid, there is no test to run, or a signal stopped them."`
	Simulate    simulation        `cmd:"" help:"Replay access logs against rules before you enforce them. Exits with 0 after the report, and 2 if the command line is invalid or a file cannot be read. If a log is truncated or damaged, the report covers what comes before that, and the exit code is 2."`
	Bench       benchmark         `cmd:"" help:"Load-test a server of Envoy's RateLimitService. Exits with 0 if every request was sent and answered, 1 if not or if nothing was measured, and 2 if the command line is invalid or a server cannot be reached."`
	operatorCommands
	Schema     schema         `cmd:"" help:"Print the JSON Schema of rule files, for editors."`
	Completion completion     `cmd:"" help:"Print a completion script for a shell. The script asks this program for completions."`
	Version    versionCommand `cmd:"" help:"Print the version."`
	Help       helping        `cmd:"" help:"Show help for weir or for one command."`

	VersionFlag kong.VersionFlag `name:"version" short:"v" help:"Print the version."`
}

// program is what commands run with.
type program struct {
	parser         *kong.Kong
	parsed         *kong.Context
	stdout, stderr io.Writer
}

// print prints the result of a command in the format of its flag --output. It fails with
// exitFailed if the result is not good.
func (p *program) print(format string, result interface{ WriteText(io.Writer) error }, good bool) error {
	write := result.WriteText
	if format == "json" {
		write = func(w io.Writer) error { return writeJSON(w, result) }
	}
	if err := write(p.stdout); err != nil {
		return err
	}
	if !good {
		return exit(exitFailed)
	}
	return nil
}

// writeJSON writes a value with line breaks, and nothing that a terminal obeys.
func writeJSON(w io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(plaintext.JSON(append(text, '\n')))
	return err
}

// output keeps the first error of a writer, so that not each line that is printed
// has to be checked, and skips what follows.
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

// run does what args ask for until that is done or ctx ends, and returns what
// to exit with. What cannot be printed makes it fail, whatever was asked for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	code := runCommand(ctx, args, out, stderr)
	if out.err != nil {
		fmt.Fprintf(stderr, "weir: printing: %v\n", out.err)
		return exitUsage
	}
	return code
}

func runCommand(ctx context.Context, args []string, stdout *output, stderr io.Writer) int {
	var line commandLine
	helped := false
	parser := newParser(&line, stdout, stderr, func(int) { helped = true })
	parsed, err := parser.Parse(spelled(args))
	switch {
	case helped: // whatever else is wrong
		return exitOK
	case err != nil:
		refuse(stderr, parser, args, err)
		return exitUsage
	case parsed.Selected().Name == "serve":
		return serve(ctx, line.Serve, stdout.w, stderr) // whose stdout may break without harm
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	p := &program{parser, parsed, stdout, stderr}
	err = within(ctx, grace, func() error { return parsed.Run(p) })
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	if err != nil {
		tell(ctx, func() { fmt.Fprintf(stderr, "weir: %s\n", plaintext.Lines(err.Error())) })
		return exitUsage
	}
	return exitOK
}

// grace is what a command has to end by itself after a signal. bench waits for a second.
const grace = 2 * time.Second

// What the build was given with -ldflags "-X main.release=...": the version, and where the
// build sees no history, as in the image, the commit and its time.
var release, commit, date string

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(p *program) error { //nolint:unparam // as every command
	fmt.Fprintln(p.stdout, "weir", build())
	return nil
}

// build returns what the build recorded. Without release the version is that of the module.
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

// checkApart returns an error if the file that a flag names is one of those that the command
// reads or writes besides.
func checkApart(flag, name string, others ...string) error {
	at, err := os.Stat(name) // which may not be there yet
	old := err == nil && at.Mode().IsRegular()
	for _, other := range others {
		info, err := os.Stat(other)
		if name != "" && other != "" && filepath.Clean(other) == filepath.Clean(name) || old && err == nil && os.SameFile(info, at) {
			return fmt.Errorf("%s: %s is the same file as %s", flag, name, other)
		}
	}
	return nil
}

// writeFile writes the file that a flag names, if it names one. That is when all is done, so
// that a command that fails leaves it as it was.
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
