package settings

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Parsing is what a parser of Settings needs: a variable that is set to nothing counts as
// unset, because compose files and charts write it so; switches accept what
// strconv.ParseBool does, as envoyproxy/ratelimit has it, beside yes and no; and errors
// about numbers and durations say what is allowed.
func Parsing() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		errs := []error{
			kong.Resolvers(kong.ResolverFunc(emptyIsUnset)).Apply(k),
			kong.KindMapper(reflect.Bool, switchMapper{}).Apply(k),
			kong.TypeMapper(reflect.TypeFor[time.Duration](), numberMapper(setDuration)).Apply(k),
		}
		for _, kind := range []reflect.Kind{reflect.Float64, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64} {
			errs = append(errs, kong.KindMapper(kind, numberMapper(setNumber)).Apply(k))
		}
		return errors.Join(errs...)
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
	return false, fmt.Errorf("%q is no switch, allowed are true, t, yes, 1, false, f, no and 0", text)
}

// numberMapper takes what follows a flag even if it begins with a minus sign, so that
// this is what is found wrong with it. set returns what else is allowed.
func numberMapper(set func(v *kong.Value, text string, target reflect.Value) (allowed string)) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		if ctx.Scan.Peek().IsEOL() {
			_, err := ctx.Scan.PopValue("number")
			return err
		}
		text := ctx.Scan.Pop().String()
		if other := set(ctx.Value, text, target); other != "" {
			return fmt.Errorf("%q %s", text, other)
		}
		return nil
	}
}

// setDuration takes durations of Go. The tag such has examples, where usual ones are longer.
func setDuration(v *kong.Value, text string, target reflect.Value) string {
	d, err := time.ParseDuration(text)
	target.SetInt(int64(d))
	if err != nil {
		return fmt.Sprintf("is not a duration, allowed are numbers with a unit such as %s%s", cmp.Or(v.Tag.Get("such"), "300ms, 5s or 1m30s"), here(v))
	}
	return ""
}

func setNumber(v *kong.Value, text string, target reflect.Value) string {
	bits := target.Type().Bits()
	switch {
	case target.CanFloat():
		n, err := strconv.ParseFloat(text, 64)
		target.SetFloat(n)
		if err != nil {
			return "is not allowed, allowed are numbers such as 1000 or 1.5"
		}
	case target.CanUint():
		n, err := strconv.ParseUint(text, 10, bits)
		target.SetUint(n)
		if err != nil {
			return fmt.Sprintf("is not allowed, allowed are whole numbers from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
		}
	default:
		n, err := strconv.ParseInt(text, 10, bits)
		target.SetInt(n)
		if err != nil {
			return "is not allowed, allowed are whole numbers" + here(v)
		}
	}
	return ""
}

// here ends an error with the range of the setting, if it has one.
func here(v *kong.Value) string {
	if span := allowed(v.Tag); span != "" {
		return ", here " + span
	}
	return ""
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
