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
	args := []string{"--help"}
	if len(h.Command) > 0 {
		if names := names(parser.Model.Node); !slices.Contains(names, h.Command[0]) {
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
	err = mistyped(parser, args, err)
	complain(w, process, "wrong flags, variables or arguments", errors.New(plain(err)))
	if process.LogFormat == "json" {
		return
	}
	node := parser.Model.Node
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context.Selected() != nil {
		node = failed.Context.Selected()
	}
	fmt.Fprintf(w, "\nUsage: weir %s\nRun \"%s --help\" for more information.\n", strings.TrimSpace(summary(node)), node.FullPath())
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

// mistyped says of an argument that no command takes what was meant, or returns
// err as it is. Without a command the parser takes such an argument for one of
// serve, which has none.
func mistyped(parser *kong.Kong, args []string, err error) error {
	argument, ok := strings.CutPrefix(err.Error(), "unexpected argument ")
	failed, isParse := errors.AsType[*kong.ParseError](err)
	if !ok || !isParse {
		return err
	}
	serve, selected, commands := parser.Model.DefaultCmd, failed.Context.Selected(), names(parser.Model.Node)
	if len(selected.Children) > 0 {
		argument, _, _ = strings.Cut(argument, `, did you mean "`) // in the words of the parser
		return unknownCommand(selected.Name+" ", argument, names(selected))
	} else if selected != serve {
		return err
	}
	near, named := spelling.Nearest(argument, commands), slices.Contains(args, serve.Name)
	_, noFile := os.Stat(argument) //nolint:gosec // only whether it exists is asked
	switch {
	case noFile == nil && (near == "" || named):
		return fmt.Errorf("%w, did you mean --config %s?", err, argument)
	case !named && (near != "" || args[0] == argument):
		return unknownCommand("", argument, commands)
	default:
		return hiddenArgument{failed}
	}
}

// hiddenArgument is an error of the parser that does not show the argument: it may be
// the rest of a password that was written without quotes.
type hiddenArgument struct{ *kong.ParseError }

// Error implements error.
func (hiddenArgument) Error() string {
	return "unexpected argument of serve, which takes flags only; a value with blanks needs quotes"
}

// Unwrap returns the error of the parser.
func (h hiddenArgument) Unwrap() error { return h.ParseError }

// unknownCommand says what was meant or, if that cannot be told, what there is.
// Being no error of the parser, it leads refuse to the usage of the program.
func unknownCommand(above, name string, commands []string) error {
	if near := spelling.Nearest(name, commands); near != "" {
		return fmt.Errorf("unknown command %q, did you mean %s?", above+name, near)
	}
	return fmt.Errorf("unknown command %q, allowed are %s", above+name, strings.Join(commands, ", "))
}

// names lists the names of commands below a node.
func names(node *kong.Node) (names []string) {
	for _, command := range node.Children {
		names = append(names, command.Name)
	}
	return names
}
