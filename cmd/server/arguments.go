package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"weir/internal/plan/explain"
	"weir/internal/settings"
)

// newParser returns the parser of the command line. The parser calls helped after it has
// shown help or the version.
func newParser(line *commandLine, stdout, stderr io.Writer, helped func(int)) *kong.Kong {
	return kong.Must(line,
		kong.Name("weir"),
		kong.Description("Weir is a rate limit service for Envoy."),
		kong.Writers(stdout, stderr),
		kong.Exit(helped),
		kong.Help(help),
		kong.Vars{"version": "weir " + build().String(), "user": userName()},
		settings.Parsing(),
		kong.TypeMapper(reflect.TypeFor[explain.Domain](), parsedBy(explain.ParseDomain)),
		kong.TypeMapper(reflect.TypeFor[explain.Entries](), parsedBy(explain.ParseDescriptor)),
		kong.TypeMapper(reflect.TypeFor[anyBytes](), parsedBy(func(text string) (string, error) { return text, nil })),
	)
}

// anyBytes is an argument that may contain any bytes.
type anyBytes string

// parsedBy returns a mapper that passes the exact bytes of an argument to parse. The parser's
// own mapper for strings would replace invalid UTF-8.
func parsedBy[T any](parse func(text string) (T, error)) kong.MapperFunc {
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

// normalize rewrites arguments for the parser. It adds the command serve if there is none,
// and turns "help test" into "test --help".
func normalize(args []string) []string {
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

// unknown matches the parser's message about an unknown argument.
var unknown = regexp.MustCompile(`^(?:unknown flag|unexpected argument) (.+?)(?:, did you mean .*)?$`)

// withoutUnknown logs unknown arguments and returns args without them. Manifests for the image of
// envoyproxy/ratelimit may have such arguments, because the program in that image ignores all arguments.
func withoutUnknown(args []string, stderr io.Writer) []string {
	for {
		_, err := newParser(new(commandLine), io.Discard, io.Discard, func(int) {}).Parse(normalize(args))
		found := unknown.FindStringSubmatch(fmt.Sprint(err))
		i := slices.IndexFunc(args, func(arg string) bool {
			name, _, _ := strings.Cut(arg, "=")
			return found != nil && (name == found[1] || arg == found[1])
		})
		if i < 0 {
			return args
		}
		shown := found[1]
		if !strings.HasPrefix(shown, "-") {
			shown = "(hidden)" // the argument may be the rest of an unquoted password
		}
		log := newLogger(settings.Process{LogFormat: settings.Word(strings.ToLower(os.Getenv("LOG_FORMAT")))}, stderr)
		log.Warn("an unknown argument is ignored, as envoyproxy/ratelimit does", "argument", shown)
		args = slices.Delete(slices.Clone(args), i, i+1)
	}
}

// helpCommand documents the command help, which normalize turns into the flag --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command to show the help of. By default, help lists all commands."`
}

// examples is a list of commands, with the examples of each command below its name.
//
//go:embed examples.txt
var examples string

// help prints the flags and examples of a command. Without a command, it prints one screen
// with the first sentence of each command's help.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if command := ctx.Selected(); command != nil {
		err := kong.DefaultHelpPrinter(options, ctx)
		if _, list, found := strings.Cut(examples, "\n"+command.FullPath()+":\n"); found {
			list, _, _ = strings.Cut(list, "\n\n")
			fmt.Fprintf(ctx.Stdout, "\nExamples:\n%s\n", strings.TrimRight(list, "\n"))
		}
		return err
	}
	fmt.Fprintf(ctx.Stdout, "%s Usage: weir <command> [flags]\n\n", ctx.Model.Help)
	for _, command := range ctx.Model.Children {
		sentence, _, _ := strings.Cut(command.Help, ".")
		fmt.Fprintf(ctx.Stdout, "  %-11s  %s\n", command.Name, sentence)
	}
	fmt.Fprint(ctx.Stdout, `
Without a command, weir serves. Each flag of serve is also a variable.
Exit codes: 0 success, 1 problems or no match, 2 bad usage, input or connection.
`)
	return nil
}

// refuse writes err, the error in args, to w. Unless the log is JSON, it adds how to show the help.
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

// The function plain replaces these parts of the parser's messages.
var (
	fromVariable = regexp.MustCompile(` \(from envar (\w+)="(?:[^"\\]|\\.)*"\)`)
	noValue      = regexp.MustCompile(`expected \w+ value but got "EOL" \(<EOL>\)`)
	noArgument   = regexp.MustCompile(`^expected "(<.*)"$`)
)

// plain returns the message of err, the parser's error about a command, in words for users
// who do not know the parser.
func plain(err error, command *kong.Node) string {
	text := fromVariable.ReplaceAllString(err.Error(), " ($$$1)") // the value may be a secret
	text = noValue.ReplaceAllString(text, "needs a value")
	text = noArgument.ReplaceAllString(text, "an argument is missing: $1")
	argument, unexpected := strings.CutPrefix(text, "unexpected argument ")
	switch {
	case unexpected && command.Name == "serve": // the argument is not shown, because it may be the rest of an unquoted password
		return "serve takes no arguments, only flags, such as --config PATH; put quotes around a value with spaces"
	case unexpected && len(command.Children) > 0:
		return "unknown command " + argument
	case command.Name == "assign" && strings.HasPrefix(text, "unknown flag -") && !strings.HasPrefix(text, "unknown flag --"):
		return unknown.ReplaceAllString(text, "$1 is not an amount; use a whole number, +N or unlimited")
	}
	return text
}
