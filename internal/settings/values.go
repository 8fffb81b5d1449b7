package settings

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Parsing returns the options of a parser of Settings. An empty variable counts as unset, because
// compose files and charts leave variables empty. Switches accept the words of strconv.ParseBool,
// as in envoyproxy/ratelimit, and yes and no. Durations may have days.
func Parsing() kong.Option {
	emptyIsUnset := func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, name := range flag.Envs {
			if value, ok := os.LookupEnv(name); ok && value == "" && flag.HasDefault {
				return flag.Default, nil
			}
		}
		return nil, nil
	}
	return kong.OptionFunc(func(k *kong.Kong) error {
		return errors.Join(
			kong.Resolvers(kong.ResolverFunc(emptyIsUnset)).Apply(k),
			kong.KindMapper(reflect.Bool, switchMapper{}).Apply(k),
			kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)).Apply(k),
			kong.PostBuild(makeTolerant).Apply(k),
		)
	})
}

// tolerant lets the parser continue after a value that a setting does not allow, so that
// Settings.AfterApply can report the problems of all settings.
type tolerant struct {
	kong.Mapper
	err error // error of the flag or, without a flag, of the variable
}

// makeTolerant makes the settings tolerant, but not the flags of other commands.
func makeTolerant(k *kong.Kong) error {
	for _, node := range append(slices.Clone(k.Model.Children), k.Model.Node) {
		if _, ok := node.Target.Addr().Interface().(interface{ AfterApply(*kong.Context) error }); !ok {
			continue
		}
		for _, flag := range node.Flags {
			if len(flag.Envs) > 0 {
				flag.Mapper = &tolerant{Mapper: flag.Mapper}
			}
		}
	}
	return nil
}

// Decode implements kong.Mapper. The parser decodes flags first, into temporary values, and then
// variables, directly into the field. A flag takes precedence over the variable.
func (t *tolerant) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	isFlag := target.Addr().Pointer() != ctx.Value.Target.Addr().Pointer()
	if err := t.Mapper.Decode(ctx, target); isFlag || !ctx.Value.Set {
		t.err = err
	}
	return nil
}

// decodeDuration parses a duration like time.ParseDuration, but also accepts days before the other
// units, as in 1d or 1d12h.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("duration")
	if err != nil {
		return err
	}
	text := token.String()
	before, rest, found := strings.Cut(text, "d")
	days, err := strconv.ParseUint(before, 10, 16)
	if rest += "0s"; !found || err != nil {
		days, rest = 0, text
	}
	d, err := time.ParseDuration(rest)
	target.SetInt(int64(d + time.Duration(days)*24*time.Hour))
	if _, other := strconv.ParseFloat(text, 64); err != nil && other == nil {
		return fmt.Errorf("%q has no unit; did you mean %[1]ss?", text)
	}
	if err != nil {
		return fmt.Errorf("%q is not a duration; use a number and a unit, such as 500ms, 30s, 5m, 12h or 1d", text)
	}
	return nil
}

// Port is a TCP port, 0 to 65535.
type Port uint16

// UnmarshalText accepts a decimal number.
func (p *Port) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 16)
	if err != nil {
		hint := ""
		if strings.Contains(string(text), "://") {
			hint = "; Kubernetes sets such variables for services unless the pod has enableServiceLinks: false"
		}
		return fmt.Errorf("%q is not a port; use 0 to 65535%s", text, hint)
	}
	*p = Port(n)
	return nil
}

// On returns the address host:port. host may be an IPv6 address in brackets.
func (p Port) On(host string) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(p)))
}

// Word is one of the words in the tag "words". The user may write it in upper or lower case. Words with
// a bar between them are synonyms; Word is the first of them. Without a default, Word may be empty.
type Word string

// Decode implements kong.MapperValue.
func (w *Word) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	*w = ""
	if err != nil || token.String() == "" && !ctx.Value.HasDefault {
		return err
	}
	word, err := wordOf(ctx.Value.Tag.Get("words"), token.String())
	*w = Word(word)
	return err
}

func wordOf(words, text string) (string, error) {
	var allowed []string
	for same := range strings.SplitSeq(words, ",") {
		spellings := strings.Split(same, "|")
		if slices.ContainsFunc(spellings, func(s string) bool { return strings.EqualFold(s, text) }) {
			return spellings[0], nil
		}
		allowed = append(allowed, spellings[0])
	}
	if len(allowed) == 1 {
		return "", fmt.Errorf("%q is not allowed; use %s", text, allowed[0])
	}
	return "", fmt.Errorf("%q is not allowed; use one of %s", text, strings.Join(allowed, ", "))
}

// switchWords are the words of a switch, in the format of the tag "words".
const switchWords = "true|t|yes|1,false|f|no|0"

// WordsOf returns the words that a setting allows, without synonyms, or nil if it allows other
// values.
func WordsOf(v *kong.Value) (words []string) {
	list := v.Tag.Get("words")
	if v.IsBool() {
		list = switchWords
	}
	for same := range strings.SplitSeq(list, ",") {
		if word, _, _ := strings.Cut(same, "|"); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// switchMapper parses switches.
type switchMapper struct{}

func (switchMapper) IsBool() bool { return true }

// Decode sets a switch. A flag without a value turns it on.
func (switchMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		target.SetBool(true)
		return nil
	}
	word, err := wordOf(switchWords, fmt.Sprint(ctx.Scan.Pop().Value))
	target.SetBool(word == "true")
	return err
}

// Secret is a string that is hidden in logs and messages.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders, such as JSON and logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Tags are names with values, sorted by name.
type Tags []Tag

// Tag is a name with a value.
type Tag = struct{ Name, Value string }

// UnmarshalText accepts name:value, separated by commas.
func (t *Tags) UnmarshalText(text []byte) (err error) {
	*t, err = pairs(string(text), ":")
	slices.SortStableFunc(*t, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	for _, tag := range *t {
		if tag.Value == "" || strings.ContainsFunc(tag.Name+tag.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%q is not a tag; use name:value without control characters", tag.Name+":"+tag.Value)
		}
	}
	return err
}

// NodeMetadata is metadata of an xDS node.
type NodeMetadata map[string]string

// UnmarshalText accepts KEY=VALUE, separated by commas.
func (m *NodeMetadata) UnmarshalText(text []byte) error {
	list, err := pairs(string(text), "=")
	*m = NodeMetadata{}
	for _, pair := range list {
		(*m)[pair.Name] = pair.Value
	}
	return err
}

// pairs parses a list of pairs, separated by commas. A pair is a name and a value with the text separator
// between them. The error quotes neither names nor values, because both may be secret.
func pairs(text, separator string) (list []Tag, err error) {
	for i, part := range strings.Split(text, ",") {
		name, value, found := strings.Cut(part, separator)
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !found && name == "":
		case !found || name == "":
			return nil, fmt.Errorf("part %d is not NAME%sVALUE, separated by commas", i+1, separator)
		default:
			list = append(list, Tag{name, value})
		}
	}
	return list, nil
}
