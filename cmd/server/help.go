package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"weir/internal/descriptors/spelling"
	"weir/internal/settings"
)

// helping is the command help.
type helping struct {
	Command []string `arg:"" optional:"" help:"Command to show the help of, by default that of the program."`
}

// show shows what --help does.
func (h helping) show(parser *kong.Kong) error {
	if len(h.Command) > 0 {
		if names := names(parser.Model.Node); !slices.Contains(names, h.Command[0]) {
			return unknownCommand(h.Command[0], names)
		}
	}
	_, err := parser.Parse(append(h.Command, "--help"))
	return err
}

// help prints the flags of a command. Of the program as a whole it prints one
// screen, with the first sentence of each command's help.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	stdout := ctx.Stdout
	if command := ctx.Selected(); command != nil {
		var text strings.Builder
		ctx.Stdout = &text
		err := kong.DefaultHelpPrinter(options, ctx)
		ctx.Stdout = stdout
		fmt.Fprint(stdout, strings.Replace(text.String(), command.Summary(), summary(command), 1))
		return err
	}
	fmt.Fprintf(stdout, "%s Usage: weir <command> [flags]\n\n", ctx.Model.Help)
	for _, command := range ctx.Model.Children {
		what, _, _ := strings.Cut(command.Help, ".")
		fmt.Fprintf(stdout, "  %-11s  %s\n", command.Name, what)
	}
	fmt.Fprint(stdout, `
Without a command it serves. Flags and exit codes: weir help <command>
Each setting of "weir help serve" is an environment variable, too.
`)
	return nil
}

// summary is the usage of a command. Of required flags that exclude each other it says
// that one is needed, where the parser lists all.
func summary(command *kong.Node) string {
	groups, text := map[string][]string{}, command.Summary()
	for _, flag := range command.Flags {
		if flag.Required && len(flag.Xor) == 1 {
			groups[flag.Xor[0]] = append(groups[flag.Xor[0]], flag.Summary())
		}
	}
	for _, flags := range groups {
		text = strings.Replace(text, strings.Join(flags, " "), "("+strings.Join(flags, "|")+")", 1)
	}
	return text
}

// refuse says what is wrong with args, and, unless to a program, how to do it right.
func refuse(w io.Writer, process settings.Process, parser *kong.Kong, args []string, err error) {
	if process.LogFormat == "" && strings.EqualFold(os.Getenv("LOG_FORMAT"), "json") { // the parser did not come to it
		process.LogFormat = "json"
	}
	node, err := meant(parser, args, err)
	complain(w, process, "wrong flags, variables or arguments", errors.New(plain(err)))
	if process.LogFormat != "json" {
		fmt.Fprintf(w, "\nUsage: weir %s\nRun \"%s --help\" for more information.\n", strings.TrimSpace(summary(node)), node.FullPath())
	}
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

// meant returns whose usage helps after an error of the parser, and what to say. Of an
// argument that no command takes it says what was meant: without a command the parser
// takes such an argument for one of serve, which has none.
func meant(parser *kong.Kong, args []string, err error) (*kong.Node, error) {
	program := parser.Model.Node
	failed, ok := errors.AsType[*kong.ParseError](err)
	if !ok || failed.Context.Selected() == nil {
		return program, err
	}
	selected, commands := failed.Context.Selected(), names(program)
	argument, unexpected := strings.CutPrefix(err.Error(), "unexpected argument ")
	switch {
	case unexpected && len(selected.Children) > 0:
		argument, _, _ = strings.Cut(argument, `, did you mean "`) // in the words of the parser
		return program, unknownCommand(argument, names(selected), selected.Name)
	case !unexpected || selected != parser.Model.DefaultCmd:
		return selected, err
	}
	near, named := spelling.Nearest(argument, commands), slices.Contains(args, selected.Name)
	_, noFile := os.Stat(argument) //nolint:gosec // only whether it exists is asked
	switch {
	case noFile == nil && (near == "" || named):
		return selected, fmt.Errorf("%w, did you mean --config %s?", err, argument)
	case !named && (near != "" || args[0] == argument):
		return program, unknownCommand(argument, commands)
	default: // the argument is not shown, it may be the rest of a password without quotes
		return selected, errors.New("unexpected argument of serve, which takes flags only; a value with blanks needs quotes")
	}
}

// unknownCommand says what was meant below other commands or, if that cannot be told,
// what there is.
func unknownCommand(name string, commands []string, above ...string) error {
	shown := strings.Join(append(above, name), " ")
	if near := spelling.Nearest(name, commands); near != "" {
		return fmt.Errorf("unknown command %q, did you mean %s?", shown, near)
	}
	return fmt.Errorf("unknown command %q, allowed are %s", shown, strings.Join(commands, ", "))
}

// names lists the names of commands below a node.
func names(node *kong.Node) (names []string) {
	for _, command := range node.Children {
		names = append(names, command.Name)
	}
	return names
}
