package main

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"

	"weir/internal/limiter"
	"weir/internal/operators"
)

// Arguments of any bytes: text, a domain that may have backslashes, and the entries of a
// descriptor, with backslashes.
type (
	anyBytes string
	domain   string
	entries  []limiter.Entry
)

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

// whom is embedded in commands about a descriptor.
type whom struct {
	Domain     domain  `arg:"" help:"Domain of the descriptor."`
	Descriptor entries `arg:"" help:"Entries of the descriptor, such as user=alice,path=/login. Here and in the domain, put a backslash before a literal comma, = or backslash; \\x0a is the byte 0a."`
}

func (w whom) descriptor() operators.Descriptor {
	return operators.NewDescriptor(string(w.Domain), w.Descriptor)
}
