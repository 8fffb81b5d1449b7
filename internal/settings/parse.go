package settings

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// Parsing is what a parser of Settings needs: a variable that is set to nothing counts as
// unset, because compose files and charts write it so; and switches accept what
// strconv.ParseBool does, as envoyproxy/ratelimit has it, beside yes and no.
func Parsing() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		return errors.Join(
			kong.Resolvers(kong.ResolverFunc(emptyIsUnset)).Apply(k),
			kong.KindMapper(reflect.Bool, switchMapper{}).Apply(k),
		)
	})
}

func emptyIsUnset(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if value, ok := os.LookupEnv(name); ok && value == "" && flag.HasDefault {
			return flag.Default, nil
		}
	}
	return nil, nil
}

type switchMapper struct{}

func (switchMapper) IsBool() bool { return true }

// Decode sets a switch. A flag without a value is on.
func (switchMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		target.SetBool(true)
		return nil
	}
	on, err := parseSwitch(fmt.Sprint(ctx.Scan.Pop().Value))
	target.SetBool(on)
	return err
}

func parseSwitch(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "t", "yes", "1":
		return true, nil
	case "false", "f", "no", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is not a switch; use true, t, yes, 1, false, f, no or 0", text)
}
