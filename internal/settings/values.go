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

	"github.com/alecthomas/kong"
)

// Parsing is what a parser of Settings needs: a variable that is set to nothing counts as
// unset, because compose files and charts write it so; and switches accept what
// strconv.ParseBool does, as envoyproxy/ratelimit has it, beside yes and no.
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
		return errors.Join(kong.Resolvers(kong.ResolverFunc(emptyIsUnset)).Apply(k), kong.KindMapper(reflect.Bool, switchMapper{}).Apply(k))
	})
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

// On is the address of the port on host, which may be an IPv6 address in brackets.
func (p Port) On(host string) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(p)))
}

// Word is one of the words of the tag words, in any case. Where a bar is between words, they
// mean the same, and the first is what is set. Without a default it may be empty.
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

// switchWords are those of a setting that is on or off.
const switchWords = "true|t|yes|1,false|f|no|0"

// WordsOf returns the words that a setting may be, nil if it may be something else. Of
// other spellings of the same it returns none.
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

// switchMapper reads what is on or off.
type switchMapper struct{}

func (switchMapper) IsBool() bool { return true }

// Decode sets a switch. A flag without a value is on.
func (switchMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		target.SetBool(true)
		return nil
	}
	word, err := wordOf(switchWords, fmt.Sprint(ctx.Scan.Pop().Value))
	target.SetBool(word == "true")
	return err
}

// Secret is a string that shows in no log and no message.
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

// MarshalText hides the secret from whatever writes it, such as JSON and logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Tags are names with values, sorted by name.
type Tags []Tag

// Tag is one of Tags.
type Tag struct{ Name, Value string }

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

// pairs reads names and values with a separator between them, separated by commas. Its error
// shows nothing of them, because any of them may be a token.
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
