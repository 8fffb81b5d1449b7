package main

import (
	"fmt"
	"io"
	"reflect"
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
