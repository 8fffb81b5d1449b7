package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"weir/internal/offline/explain"
	"weir/internal/settings"
)

// newParser returns the parser of a command line. It calls helped after it has shown help or
// the version.
func newParser(line *commandLine, stdout, stderr io.Writer, helped func(int)) *kong.Kong {
	return kong.Must(line,
		kong.Name("weir"),
		kong.Description("Weir is a rate limit service for Envoy."),
		kong.Writers(stdout, stderr),
		kong.Exit(helped),
		kong.Help(help),
		kong.Vars{"version": "weir " + build().String(), "user": userName()},
		settings.Parsing(),
		kong.TypeMapper(reflect.TypeFor[explain.Domain](), asGiven(explain.ParseDomain)),
		kong.TypeMapper(reflect.TypeFor[explain.Entries](), asGiven(explain.ParseDescriptor)),
		kong.TypeMapper(reflect.TypeFor[anyBytes](), asGiven(func(text string) (string, error) { return text, nil })),
	)
}

// anyBytes is an argument of any bytes.
type anyBytes string

// asGiven maps an argument to what parse makes of it. The parser would replace what is not
// UTF-8 in a string.
func asGiven[T any](parse func(text string) (T, error)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		token, err := ctx.Scan.PopValue("text")
		if err != nil {
			return err
		}
		value, err := parse(token.String())
		if err != nil {
			return fmt.Errorf("%q: %w", token.String(), err)
		}
		target.Set(reflect.ValueOf(value).Convert(target.Type()))
		return nil
	}
}

// spelled returns arguments as the parser takes them: serve is what runs without a
// command, and help is --help behind what follows it.
func spelled(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"serve"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case strings.HasPrefix(args[0], "-") && !slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0]):
		return append([]string{"serve"}, args...)
	}
	return args
}

// helping is the command help, which the parser sees as the flag --help only.
type helping struct {
	Command []string `arg:"" optional:"" help:"Command to show the help of. By default, help lists all commands."`
}

// help prints the flags of a command. Of the program it prints one screen, with the first
// sentence of each command's help.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() != nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	fmt.Fprintf(ctx.Stdout, "%s Usage: weir <command> [flags]\n\n", ctx.Model.Help)
	for _, command := range ctx.Model.Children {
		what, _, _ := strings.Cut(command.Help, ".")
		fmt.Fprintf(ctx.Stdout, "  %-11s  %s\n", command.Name, what)
	}
	fmt.Fprint(ctx.Stdout, `
Without a command, weir serves. Flags and exit codes: weir help <command>
Each flag of "weir help serve" is also an environment variable.
`)
	return nil
}

// refuse says what is wrong with args and, unless the log is JSON, which command helps.
func refuse(w io.Writer, parser *kong.Kong, args []string, err error) {
	asJSON := strings.EqualFold(os.Getenv("LOG_FORMAT"), "json") || slices.Contains(args, "--log-format=json")
	node := parser.Model.Node
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context.Selected() != nil {
		node = failed.Context.Selected()
	}
	complain(w, asJSON, "invalid flags, variables or arguments", errors.New(plain(err, node)))
	if !asJSON {
		fmt.Fprintf(w, "\nUsage: weir %s\nRun \"%s --help\" for more information.\n", strings.TrimSpace(node.Summary()), node.FullPath())
	}
}

// What the parser says in words of its own.
var (
	fromVariable = regexp.MustCompile(` \(from envar (\w+)="(?:[^"\\]|\\.)*"\)`)
	noValue      = regexp.MustCompile(`expected \w+ value but got "EOL" \(<EOL>\)`)
)

// plain says what is wrong with the arguments of a command in words that need no knowledge
// of the parser.
func plain(err error, command *kong.Node) string {
	text := fromVariable.ReplaceAllString(err.Error(), " ($$$1)") // the value may be a secret
	text = noValue.ReplaceAllString(text, "needs a value")
	argument, unexpected := strings.CutPrefix(text, "unexpected argument ")
	switch {
	case unexpected && command.Name == "serve": // it is not shown: it may be the rest of a password without quotes
		return "serve takes no arguments, only flags, such as --config PATH; put quotes around a value with spaces"
	case unexpected && len(command.Children) > 0:
		return "unknown command " + argument
	}
	return text
}
