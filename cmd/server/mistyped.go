package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"weir/internal/descriptors/spelling"
)

// mistyped says of an argument that no command takes what was meant, or returns
// err as it is. Without a command the parser takes such an argument for one of
// serve, which has none.
func mistyped(parser *kong.Kong, args []string, err error) error {
	argument, ok := strings.CutPrefix(err.Error(), "unexpected argument ")
	var failed *kong.ParseError
	if !ok || !errors.As(err, &failed) {
		return err
	}
	if selected := failed.Context.Selected(); len(selected.Children) > 0 {
		argument, _, _ = strings.Cut(argument, `, did you mean "`) // in the words of the parser
		return unknownCommand(selected.Name+" ", argument, names(selected.Children))
	} else if selected != parser.Model.DefaultCmd {
		return err
	}
	near := spelling.Nearest(argument, commands(parser))
	named := slices.Contains(args, parser.Model.DefaultCmd.Name)
	_, noFile := os.Stat(argument) //nolint:gosec // only whether it exists is asked
	switch {
	case noFile == nil && (near == "" || named):
		return fmt.Errorf("%w, did you mean --config %s?", err, argument)
	case !named && (near != "" || args[0] == argument):
		return unknownCommand("", argument, commands(parser))
	default:
		return hiddenArgument{err}
	}
}

// hiddenArgument is an error of the parser that does not show the argument: it may be
// the rest of a password that was written without quotes.
type hiddenArgument struct{ error }

// Error implements error.
func (hiddenArgument) Error() string {
	return "unexpected argument of serve, which takes flags only; a value with blanks needs quotes"
}

// Unwrap returns the error of the parser.
func (h hiddenArgument) Unwrap() error { return h.error }

// unknownCommand says what was meant or, if that cannot be told, what there is.
// Being no error of the parser, it leads usage to that of the program.
func unknownCommand(above, name string, commands []string) error {
	if near := spelling.Nearest(name, commands); near != "" {
		return fmt.Errorf("unknown command %q, did you mean %s?", above+name, near)
	}
	return fmt.Errorf("unknown command %q, allowed are %s", above+name, strings.Join(commands, ", "))
}

// commands lists the names of the commands.
func commands(parser *kong.Kong) []string { return names(parser.Model.Children) }

func names(commands []*kong.Node) (names []string) {
	for _, command := range commands {
		names = append(names, command.Name)
	}
	return names
}
