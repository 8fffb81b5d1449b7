package settings

import (
	"errors"
	"os"
	"reflect"

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
