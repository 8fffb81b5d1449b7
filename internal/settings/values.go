package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// Port is a TCP port, 0 to 65535.
type Port uint16

// UnmarshalText accepts a decimal number.
func (p *Port) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 16)
	switch {
	case err == nil:
		*p = Port(n)
		return nil
	case strings.Contains(string(text), "://"):
		return fmt.Errorf("%q is not a port; use 0 to 65535; Kubernetes sets such variables for services unless the pod has enableServiceLinks: false", text)
	default:
		return fmt.Errorf("%q is not a port; use 0 to 65535", text)
	}
}

// On is the address of the port on host, which may be an IPv6 address in brackets.
func (p Port) On(host string) string {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p)))
}

// Word is one of the words of the tag words, in any case. Nothing is allowed where there is
// no default.
type Word string

// Decode implements kong.MapperValue.
func (w *Word) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	text := token.String()
	if err != nil || text == "" && ctx.Value.Default == "" {
		*w = ""
		return err
	}
	if ctx.Value.Name == "backend-type" && strings.EqualFold(text, "memcache") {
		return errors.New("memcache is not supported; use redis; without REDIS_URL, counters are in memory")
	}
	word, err := wordOf(ctx.Value, text)
	if ctx.Value.Tag.Has("lower") {
		word = strings.ToLower(word)
	}
	*w = Word(word)
	return err
}

// wordOf returns the word of a setting that text spells.
func wordOf(v *kong.Value, text string) (string, error) {
	for _, word := range WordsOf(v) {
		if strings.EqualFold(word, text) {
			return word, nil
		}
	}
	return "", fmt.Errorf("%q is not allowed; use one of %s", text, strings.Join(WordsOf(v), ", "))
}

// WordsOf returns the words that a setting may be, nil if it may be something else. Of
// other spellings of the same it returns none.
func WordsOf(v *kong.Value) []string {
	if words := v.Tag.Get("words"); words != "" {
		return strings.Split(words, ",")
	}
	if _, choice := v.Target.Interface().(Choice); choice || v.IsBool() {
		return []string{"true", "false"}
	}
	return nil
}

// LogLevel is the least severe level that is logged.
type LogLevel slog.Level

// Decode accepts the spellings of envoyproxy/ratelimit, too, in any case.
func (l *LogLevel) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	if err != nil {
		return err
	}
	text := token.String()
	if other, ok := otherLevels[strings.ToLower(text)]; ok {
		text = other
	}
	word, err := wordOf(ctx.Value, text)
	if err != nil {
		return err
	}
	return (*slog.Level)(l).UnmarshalText([]byte(word))
}

// otherLevels are spellings of envoyproxy/ratelimit beside those of package slog.
var otherLevels = map[string]string{"trace": "debug", "warning": "warn", "fatal": "error", "panic": "error"}

// Choice is a switch that has a third position: not set.
type Choice struct{ Set, On bool }

// UnmarshalText accepts what a switch does, and nothing.
func (c *Choice) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*c = Choice{}
		return nil
	}
	on, err := parseSwitch(string(text))
	*c = Choice{Set: err == nil, On: on}
	return err
}

// Ratio is a number from 0 to 1.
type Ratio float64

// UnmarshalText accepts a decimal number.
func (r *Ratio) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(0 <= f && f <= 1) {
		return fmt.Errorf("%q is not allowed; use a number from 0 to 1", text)
	}
	*r = Ratio(f)
	return nil
}

// Address is host:port, where the host may be empty: all of this machine's.
type Address string

// UnmarshalText accepts an address whose port is a number.
func (a *Address) UnmarshalText(text []byte) error {
	_, port, err := net.SplitHostPort(string(text))
	if err != nil {
		return fmt.Errorf("%q is not an address; use host:port or :port", text)
	}
	*a = Address(text)
	return new(Port).UnmarshalText([]byte(port))
}

// URLPath is the path of a URL.
type URLPath string

// UnmarshalText accepts a path that begins with a slash and is in its shortest
// form.
func (p *URLPath) UnmarshalText(text []byte) error {
	s := string(text)
	clean := path.Clean(s)
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, "{} ?#") || s != clean && s != clean+"/" {
		return fmt.Errorf("%q is not a valid URL path; it must start with / and must not contain //, ., .., spaces or any of {}?#", text)
	}
	*p = URLPath(text)
	return nil
}

// KeyPrefix starts every counter's key.
type KeyPrefix string

// Decode accepts UTF-8 without '|', which ends the prefix in a key. It takes the
// text as it came: kong would put U+FFFD for other bytes, and two prefixes that
// differ in them would become one.
func (p *KeyPrefix) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	text := token.String()
	switch {
	case err != nil:
		return err
	case !utf8.ValidString(text):
		return fmt.Errorf("%q is not allowed, it must be UTF-8", text)
	case strings.Contains(text, "|"):
		return fmt.Errorf("%q is not allowed, it must not contain '|'", text)
	}
	*p = KeyPrefix(text)
	return nil
}

// HeaderName is the name of an HTTP header.
type HeaderName string

// UnmarshalText accepts the characters of a token (RFC 9110, section 5.6.2).
func (h *HeaderName) UnmarshalText(text []byte) error {
	if !isToken.Match(text) {
		return fmt.Errorf("%q is not a header name; use letters, digits and !#$%%&'*+-.^_`|~", text)
	}
	*h = HeaderName(text)
	return nil
}

var isToken = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]*$")

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

// MarshalText hides the secret from whatever writes it, such as JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from a log.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Names are separated by commas.
type Names []string

// UnmarshalText accepts names of letters, digits and '_'.
func (n *Names) UnmarshalText(text []byte) error {
	*n = pairs(string(text))
	for _, name := range *n {
		if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && !isLetterOrDigit(r) }) {
			return fmt.Errorf("%q is not a name; use letters, digits or '_'", name)
		}
	}
	return nil
}

func isLetterOrDigit(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' }

// Tags are names with values, sorted by name.
type Tags []Tag

// Tag is one of Tags.
type Tag struct{ Name, Value string }

// UnmarshalText accepts name:value, separated by commas.
func (t *Tags) UnmarshalText(text []byte) error {
	var tags Tags
	for pair := range strings.SplitSeq(string(text), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, ":")
		tag := Tag{strings.TrimSpace(name), strings.TrimSpace(value)}
		if tag.Name == "" || tag.Value == "" || strings.ContainsFunc(pair, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%q is not a tag; use name:value without control characters", pair)
		}
		tags = append(tags, tag)
	}
	slices.SortStableFunc(tags, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	*t = tags
	return nil
}

// Target is where a gRPC server is.
type Target string

// UnmarshalText accepts host:port, and targets of gRPC that name one of the schemes that it
// knows by itself: dns:cp:18000, dns:///cp:18000, unix:/run/xds.sock.
func (t *Target) UnmarshalText(text []byte) error {
	s := string(text)
	if strings.Contains(s, "@") && !strings.HasPrefix(s, "unix") { // and do not show it
		return errors.New("it contains an @; use host:port without a user or a password, or a target of gRPC such as unix:/run/xds.sock")
	}
	scheme, rest, _ := strings.Cut(s, ":")
	_, port, err := net.SplitHostPort(s)
	switch {
	case slices.Contains([]string{"dns", "passthrough", "unix", "unix-abstract"}, scheme) && strings.Trim(rest, "/") != "":
	case err != nil || new(Port).UnmarshalText([]byte(port)) != nil:
		return fmt.Errorf("%q is not a gRPC server; use host:port, or a target of gRPC such as unix:/run/xds.sock", text)
	}
	*t = Target(s)
	return nil
}

// NodeMetadata is metadata of an xDS node.
type NodeMetadata map[string]string

// UnmarshalText accepts KEY=VALUE, separated by commas. Its error shows nothing of
// them, because some control planes want a token there.
func (m *NodeMetadata) UnmarshalText(text []byte) error {
	*m = NodeMetadata{}
	for i, pair := range pairs(string(text)) {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return fmt.Errorf("part %d is not metadata; use KEY=VALUE, separated by commas", i+1)
		}
		(*m)[key] = value
	}
	return nil
}

// pairs are what commas separate, without what is empty.
func pairs(text string) (list []string) {
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair != "" {
			list = append(list, pair)
		}
	}
	return list
}
