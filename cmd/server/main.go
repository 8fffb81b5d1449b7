// Command server is weir: it serves Envoy's rate limit requests, checks,
// explains and tests rules, puts load on servers, asks and steers running ones, and
// prints its version. It is thin: flags become settings, and package app does the rest.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	_ "time/tzdata" // rules name time zones, and an image FROM scratch has no data of them

	"github.com/alecthomas/kong"

	"weir/internal/descriptors"
	"weir/internal/settings"
)

func main() {
	os.Exit(run(untilSignal(), os.Args[1:], os.Stdout, os.Stderr))
}

// What the process exits with.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // wrong flags, variables or arguments, or nowhere to print
)

// commandLine is what can be asked of the program.
type commandLine struct {
	Serve       settings.Settings `cmd:"" default:"withargs" help:"Serve rate limit requests. This is what happens if no command is given."`
	Validate    validation        `cmd:"" help:"Check rules. Exits with 0 if they are valid, 1 after printing every problem, one per line, and 2 if some cannot be read."`
	Explain     explanation       `cmd:"" help:"Explain what becomes of a descriptor. Shows its way through the rules, the rule that applies, its limits and their counters. Exits with 0 if a rule applies, 1 if none does, and 2 if the command or the rules are wrong."`
	Descriptors descriptorsOf     `cmd:"" help:"Print which descriptors Envoy sends for a request. They are read from its own configuration. Exits with 0 if it sends some, 1 if none, and 2 if the command or the configuration is wrong."`
	Test        ruleTests         `cmd:"" help:"Run unit tests of rules. Exits with 0 if all pass, 1 if one fails, and 2 if a file or the command is wrong, there is no test to run, or a signal ended them."`
	Simulate    simulation        `cmd:"" help:"Replay access logs against rules, before they are enforced. Exits with 0 after the report, and 2 if the command is wrong, or a log or file cannot be read. A log that is cut off or damaged is in the report up to there, and the exit code is 2."`
	Bench       benchmark         `cmd:"" help:"Put load on a server of Envoy's RateLimitService and measure it. Exits with 0 if every request was sent and answered, 1 if not or if nothing was measured, and 2 if the command is wrong or a server or process cannot be reached."`
	Status      statusCommand     `cmd:"" help:"Show how a running server is. Shows its health, counters, rules and denials a second. Exits with 0, or 2 if the server does not answer."`
	Top         topCommand        `cmd:"" help:"Show who is denied most, and by which rule. Asks a running server. Exits with 0, or 2 if the server does not answer."`
	Denials     denialsCommand    `cmd:"" help:"Show the last denials. Asks a running server. Exits with 0, or 2 if the server does not answer."`
	Peek        peekCommand       `cmd:"" help:"Show the counters of a descriptor, without counting. Asks a running server. Exits with 0, 1 if no rule matches, and 2 if the command is wrong or the server does not answer."`
	Reset       resetCommand      `cmd:"" help:"Set the counters of a descriptor to zero. Asks a running server. Exits with 0, 1 if no rule matches, and 2 if the command is wrong or the server does not answer."`
	Except      exceptCommand     `cmd:"" help:"Add, list or remove exceptions from the rules. They hold on all servers that share a Redis."`
	Schema      struct{}          `cmd:"" help:"Print the JSON Schema of rule files, for editors."`
	Completion  completion        `cmd:"" help:"Print a script that completes commands in a shell. It asks this program for what may follow."`
	Version     struct{}          `cmd:"" help:"Print the version."`
	Help        helping           `cmd:"" help:"Show what can be asked of the program, or of one command."`

	VersionFlag kong.VersionFlag `name:"version" short:"v" help:"Print the version."`
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

// output keeps the first error of a writer, so that not each line that is printed
// has to be checked, and passes over what follows.
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

// writeResult writes the result of a command in the format of its flag --output.
func writeResult(w io.Writer, format string, result interface{ WriteText(io.Writer) error }) error {
	if format == "json" {
		return writeReport(w, result)
	}
	return result.WriteText(w)
}

// writeReport writes what a command returns to programs.
func writeReport(w io.Writer, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return writeJSON(w, text)
}

func runCommand(ctx context.Context, args []string, stdout *output, stderr io.Writer) int {
	var line commandLine
	helped := false
	parser, err := kong.New(&line,
		kong.Name("weir"),
		kong.Description("Weir is a rate limit service for Envoy."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.Help(help),
		kong.Vars{"version": "weir " + version()},
		settings.EmptyIsUnset(),
		settings.Switches(),
		settings.Numbers(),
	)
	if err != nil {
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if err == nil && parsed.Selected().Name == "help" {
		err = line.Help.run(parser)
	}
	switch {
	case helped: // whatever else is wrong
		return exitOK
	case err != nil:
		process := line.Serve.Process
		if process.LogFormat == "" { // the parser did not come to it
			_ = process.LogFormat.UnmarshalText([]byte(os.Getenv("LOG_FORMAT"))) // or text
		}
		err = mistyped(parser, args, err)
		complain(stderr, process, "wrong flags, variables or arguments", errors.New(plain(err)))
		if process.LogFormat != "json" {
			fmt.Fprintln(stderr, usage(parser, err))
		}
		return exitUsage
	}
	if command, ok := parsed.Selected().Target.Addr().Interface().(asked); ok {
		return orInterrupted(ctx, stderr, func() int { return runRemote(ctx, command, stdout, stderr) })
	}
	switch parsed.Selected().Name {
	case "validate":
		return orInterrupted(ctx, stderr, func() int { return line.Validate.run(stdout, stderr) })
	case "explain":
		return orInterrupted(ctx, stderr, func() int { return line.Explain.run(stdout, stderr) })
	case "descriptors":
		return orInterrupted(ctx, stderr, func() int { return line.Descriptors.run(stdout, stderr) })
	case "test":
		return orInterrupted(ctx, stderr, func() int { return line.Test.run(ctx, stdout, stderr) })
	case "bench":
		return line.Bench.run(ctx, stdout, stderr)
	case "simulate":
		return line.Simulate.run(ctx, stdout, stderr)
	case "schema":
		_, _ = stdout.Write(descriptors.Schema()) // stdout keeps the error
		return exitOK
	case "completion":
		return line.Completion.run(parser.Model, stdout)
	case "version":
		fmt.Fprintln(stdout, "weir", version())
		return exitOK
	default:
		return serve(ctx, line.Serve, stdout.w, stderr) // whose stdout may break without harm
	}
}

// helping is the command help.
type helping struct {
	Command []string `arg:"" optional:"" help:"Command to show the help of, by default that of the program."`
}

// run shows what --help does.
func (h helping) run(parser *kong.Kong) error {
	args := []string{"--help"}
	if len(h.Command) > 0 {
		if names := commands(parser); !slices.Contains(names, h.Command[0]) {
			return unknownCommand("", h.Command[0], names)
		}
		args = append(h.Command, args...)
	}
	_, err := parser.Parse(args)
	return err
}

// help prints the flags of a command. Of the program as a whole it prints one
// screen, with the first sentence of each command's help.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() != nil {
		return commandHelp(options, ctx)
	}
	fmt.Fprintf(ctx.Stdout, "%s Usage: weir <command> [flags]\n\n", ctx.Model.Help)
	for _, command := range ctx.Model.Children {
		what, _, _ := strings.Cut(command.Help, ".")
		fmt.Fprintf(ctx.Stdout, "  %-11s  %s\n", command.Name, what)
	}
	fmt.Fprint(ctx.Stdout, `
Without a command it serves. Flags and exit codes: weir help <command>
Each setting of "weir help serve" is an environment variable, too.
`)
	return nil
}

// commandHelp prints the flags of a command.
func commandHelp(options kong.HelpOptions, ctx *kong.Context) error {
	stdout := ctx.Stdout
	var text strings.Builder
	ctx.Stdout = &text
	err := kong.DefaultHelpPrinter(options, ctx)
	ctx.Stdout = stdout
	summary := ctx.Selected().Summary()
	fmt.Fprint(stdout, strings.Replace(text.String(), summary, oneOf(ctx.Selected(), summary), 1))
	return err
}

// oneOf shows in the summary of a command which of its required flags exclude each other:
// the parser lists them as if all were needed.
func oneOf(command *kong.Node, summary string) string {
	groups := map[string][]string{}
	for _, flag := range command.Flags {
		if flag.Required && len(flag.Xor) == 1 {
			groups[flag.Xor[0]] = append(groups[flag.Xor[0]], flag.Summary())
		}
	}
	for _, flags := range groups {
		if len(flags) > 1 {
			summary = strings.Replace(summary, strings.Join(flags, " "), "("+strings.Join(flags, "|")+")", 1)
		}
	}
	return summary
}

// usage says in two lines how to do what failed with err.
func usage(parser *kong.Kong, err error) string {
	node := parser.Model.Node
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context.Selected() != nil {
		node = failed.Context.Selected()
	}
	return fmt.Sprintf("\nUsage: weir %s\nRun \"%s --help\" for more information.", strings.TrimSpace(oneOf(node, node.Summary())), node.FullPath())
}

// What the parser says in words of its own.
var (
	fromVariable = regexp.MustCompile(` \(from envar (\w+)="(?:[^"\\]|\\.)*"\)`)
	noValue      = regexp.MustCompile(`expected \w+ value but got "EOL" \(<EOL>\)`)
	nearLetter   = regexp.MustCompile(`^(unknown flag -\pL), did you mean .*\?$`) // all letters are near each other
)

// plain says what is wrong in words that need no knowledge of the parser.
func plain(err error) string {
	text := fromVariable.ReplaceAllString(err.Error(), " ($$$1)") // the value may be a secret
	text = nearLetter.ReplaceAllString(text, "$1")
	return noValue.ReplaceAllString(text, "needs a value")
}
