package settings

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Parsing is what a parser of Settings needs.
func Parsing() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		return errors.Join(EmptyIsUnset().Apply(k), Switches().Apply(k), Numbers().Apply(k))
	})
}

// WordsOf returns the words that a setting may be, nil if it may be something else.
func WordsOf(v *kong.Value) []string {
	if one, ok := v.Target.Interface().(OneOf); ok {
		return one.Words()
	}
	if v.IsBool() {
		return Choice{}.Words()
	}
	return nil
}

// EmptyIsUnset makes a variable that is set to nothing count as unset, because
// compose files and charts write it so. A parser of Settings needs it.
func EmptyIsUnset() kong.Option {
	return kong.Resolvers(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if !flag.HasDefault {
			return nil, nil
		}
		for _, name := range flag.Envs {
			if value, ok := os.LookupEnv(name); ok && value == "" {
				return flag.Default, nil
			}
		}
		return nil, nil
	}))
}

// Switches makes switches accept what strconv.ParseBool does, as
// envoyproxy/ratelimit has it, beside yes and no, all in any case.
func Switches() kong.Option { return kong.KindMapper(reflect.Bool, switchMapper{}) }

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
	return false, fmt.Errorf("%q is no switch, allowed are true, t, yes, 1, false, f, no and 0", text)
}

// AfterApply checks and completes what a type alone cannot say, and says all that
// is wrong. It is a hook of the parser.
func (s *Settings) AfterApply(ctx *kong.Context) error {
	var names []string
	var errs []error
	for _, flag := range ctx.Flags() {
		errs = append(errs, checkRange(flag), checkPath(flag))
		names = append(names, flag.Envs...)
	}
	s.Listen.ofOneFamily()
	if !s.Redis.Main.Named() {
		s.Redis.Variables = redisVariables(names)
	}
	warnings, unusable := compare()
	var err error
	s.Metrics.Mogrifiers, err = mogrifiers(s.Metrics.DogStatsdMogrifiers)
	errs = append(errs, unusable, s.checkSources(), s.TLS.check(), err, s.checkSecrets())
	s.Warnings = slices.Concat(warnings, s.TLS.warnings(), s.XDS.warnings())
	return errors.Join(errs...)
}

// checkRange compares a number or duration with the tags min and max.
func checkRange(flag *kong.Flag) error {
	value := flag.Target
	if value.Kind() != reflect.Int && value.Kind() != reflect.Int64 {
		return nil
	}
	low, high := flag.Tag.Get("min"), flag.Tag.Get("max")
	if (low == "" || value.Int() >= number(low)) && (high == "" || value.Int() <= number(high)) {
		return nil
	}
	return fmt.Errorf("--%s ($%s): %v is not allowed, allowed is %s", flag.Name, flag.Envs[0], value.Interface(), allowed(flag.Tag))
}

// checkPath refuses the content of a PEM file where its path belongs: else a key
// would be shown as the name of a file that is not there.
func checkPath(flag *kong.Flag) error {
	isPath := flag.PlaceHolder == "FILE" || flag.PlaceHolder == "PATH"
	if isPath && strings.Contains(flag.Target.String(), "-----BEGIN") {
		return fmt.Errorf("--%s ($%s): holds the text of a file, allowed is its path", flag.Name, flag.Envs[0])
	}
	return nil
}

// allowed returns the range of a setting, "" if it has none.
func allowed(tag *kong.Tag) string {
	low, high := tag.Get("min"), tag.Get("max")
	switch {
	case low == "":
		return ""
	case high == "":
		return low + " or more"
	default:
		return low + " to " + high
	}
}

// number reads the bound in a tag, which is right or a bug.
func number(bound string) int64 {
	if d, err := time.ParseDuration(bound); err == nil {
		return int64(d)
	}
	n, err := strconv.ParseInt(bound, 10, 64)
	if err != nil {
		panic("settings: bad bound in a tag: " + bound)
	}
	return n
}
