package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"weir/internal/spelling"
)

// mistyped says of an argument that no command takes what was meant, or returns
// err as it is. Without a command the parser takes such an argument for one of
// serve, which has none.
func mistyped(parser *kong.Kong, args []string, err error) error {
	argument, ok := strings.CutPrefix(err.Error(), "unexpected argument ")
	var failed *kong.ParseError
	if !ok || !errors.As(err, &failed) || failed.Context.Selected() != parser.Model.DefaultCmd {
		return err
	}
	var commands []string
	for _, command := range parser.Model.Children {
		commands = append(commands, command.Name)
	}
	near := spelling.Nearest(argument, commands)
	_, noFile := os.Stat(argument) //nolint:gosec // only whether it exists is asked
	switch {
	case near != "" && !slices.Contains(args, parser.Model.DefaultCmd.Name):
		return fmt.Errorf("unknown command %q, did you mean %s?", argument, near)
	case noFile == nil:
		return fmt.Errorf("%w, did you mean --config %s?", err, argument)
	case !slices.Contains(args, parser.Model.DefaultCmd.Name):
		return fmt.Errorf("unknown command %q, allowed are %s", argument, strings.Join(commands, ", "))
	default:
		return err
	}
}
