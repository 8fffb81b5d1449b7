package settings

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// Numbers makes errors about numbers and durations say what is allowed. It takes
// what follows a flag even if it begins with a minus sign, so that this is what
// is found wrong with it.
func Numbers() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		options := []kong.Option{
			kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
			kong.KindMapper(reflect.Float64, kong.MapperFunc(decodeFloat)),
		}
		for _, kind := range []reflect.Kind{reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64} {
			options = append(options, kong.KindMapper(kind, kong.MapperFunc(decodeWhole)))
		}
		for _, option := range options {
			if err := option.Apply(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// decodeDuration takes durations of Go. The tag such has examples, where usual ones are longer.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := following(ctx)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration, allowed are numbers with a unit such as %s%s", text, cmp.Or(ctx.Value.Tag.Get("such"), "300ms, 5s or 1m30s"), within(ctx))
	}
	target.SetInt(int64(d))
	return nil
}

func decodeFloat(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := following(ctx)
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%q is not allowed, allowed are numbers such as 1000 or 1.5", text)
	}
	target.SetFloat(n)
	return nil
}

func decodeWhole(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := following(ctx)
	if err != nil {
		return err
	}
	bits := target.Type().Bits()
	if target.CanUint() {
		n, err := strconv.ParseUint(text, 10, bits)
		if err != nil {
			return fmt.Errorf("%q is not allowed, allowed are whole numbers from 0 to %d", text, uint64(math.MaxUint64)>>(64-bits))
		}
		target.SetUint(n)
		return nil
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return fmt.Errorf("%q is not allowed, allowed are whole numbers%s", text, within(ctx))
	}
	target.SetInt(n)
	return nil
}

// following is the argument after the flag.
func following(ctx *kong.DecodeContext) (string, error) {
	if ctx.Scan.Peek().IsEOL() {
		_, err := ctx.Scan.PopValue("number")
		return "", err
	}
	return ctx.Scan.Pop().String(), nil
}

// within ends an error with the range of the setting, if it has one.
func within(ctx *kong.DecodeContext) string {
	if span := allowed(ctx.Value.Tag); span != "" {
		return ", here " + span
	}
	return ""
}
