package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path"
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
		return fmt.Errorf("%q is not a port, allowed are 0 to 65535; Kubernetes sets such variables for services unless the pod has enableServiceLinks: false", text)
	default:
		return fmt.Errorf("%q is not a port, allowed are 0 to 65535", text)
	}
}

// On is the address of the port on host, which may be an IPv6 address in brackets.
func (p Port) On(host string) string {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p)))
}

// OneOf is a setting that is one of a few words. Shells complete them.
type OneOf interface{ Words() []string }

// choose sets target to its word that text spells, in any case. The error says what
// text is not, and what is allowed.
func choose[T interface {
	~string
	OneOf
}](target *T, text []byte, isNot string) error {
	word, err := wordOf(*target, string(text), isNot)
	if err == nil {
		*target = T(word)
	}
	return err
}

// wordOf returns the word of a setting that text spells.
func wordOf(setting OneOf, text, isNot string) (string, error) {
	words := setting.Words()
	i := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(word, text) })
	last := len(words) - 1
	switch {
	case i >= 0:
		return words[i], nil
	case last == 0:
		return "", fmt.Errorf("%q %s, allowed is %s", text, isNot, words[0])
	default:
		return "", fmt.Errorf("%q %s, allowed are %s and %s", text, isNot, strings.Join(words[:last], ", "), words[last])
	}
}

// Proto is the kind of addresses to listen on.
type Proto string

// Words implements OneOf.
func (Proto) Words() []string { return []string{"tcp", "tcp4", "tcp6"} }

// UnmarshalText accepts the words in any case.
func (p *Proto) UnmarshalText(text []byte) error {
	return choose(p, text, "is no kind of addresses")
}

// Address is host:port, where the host may be empty: all of this machine's.
type Address string

// UnmarshalText accepts an address whose port is a number.
func (a *Address) UnmarshalText(text []byte) error {
	_, port, err := net.SplitHostPort(string(text))
	if err != nil {
		return fmt.Errorf("%q is not an address, allowed is host:port or :port", text)
	}
	if err := new(Port).UnmarshalText([]byte(port)); err != nil {
		return err
	}
	*a = Address(text)
	return nil
}

// URLPath is the path of a URL.
type URLPath string

// UnmarshalText accepts a path that begins with a slash and is in its shortest
// form.
func (p *URLPath) UnmarshalText(text []byte) error {
	s := string(text)
	clean := path.Clean(s)
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, "{} ?#") || s != clean && s != clean+"/" {
		return fmt.Errorf("%q is not a path, allowed is one that begins with /, without //, . or .., blanks and {}?#", text)
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
		return fmt.Errorf("%q is not allowed, it may not contain '|'", text)
	}
	*p = KeyPrefix(text)
	return nil
}

// HeaderName is the name of an HTTP header.
type HeaderName string

// UnmarshalText accepts letters, digits and the other characters of a token
// (RFC 9110, section 5.6.2).
func (h *HeaderName) UnmarshalText(text []byte) error {
	for _, c := range text {
		letterOrDigit := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return fmt.Errorf("%q is not a header name, allowed are letters, digits and !#$%%&'*+-.^_`|~", text)
		}
	}
	*h = HeaderName(text)
	return nil
}

// Backend is the kind of store.
type Backend string

// Words implements OneOf.
func (Backend) Words() []string { return []string{"redis"} }

// UnmarshalText accepts redis, in any case.
func (b *Backend) UnmarshalText(text []byte) error {
	if strings.EqualFold(string(text), "memcache") {
		return errors.New("memcache is not supported, allowed is redis; without REDIS_URL counters are kept in memory")
	}
	return choose(b, text, "is not a backend")
}

// SocketType is the kind of socket that reaches Redis; empty leaves it to the
// form of the address.
type SocketType string

// Words implements OneOf.
func (SocketType) Words() []string { return []string{"tcp", "unix"} }

// UnmarshalText accepts the words in any case, and nothing.
func (t *SocketType) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = ""
		return nil
	}
	return choose(t, text, "is not a socket type")
}

// Choice is a switch that has a third position: not set.
type Choice struct{ Set, On bool }

// Words implements OneOf. It leaves out other spellings.
func (Choice) Words() []string { return []string{"true", "false"} }

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

// LogLevel is the least severe level that is logged.
type LogLevel slog.Level

// Words implements OneOf. It leaves out otherLevels.
func (LogLevel) Words() []string { return []string{"debug", "info", "warn", "error"} }

// UnmarshalText accepts the spellings of envoyproxy/ratelimit, in any case.
func (l *LogLevel) UnmarshalText(text []byte) error {
	name := string(text)
	if other, ok := otherLevels[strings.ToLower(name)]; ok {
		name = other
	}
	word, err := wordOf(l, name, "is not a log level")
	if err != nil {
		return err
	}
	return (*slog.Level)(l).UnmarshalText([]byte(word))
}

// otherLevels are spellings of envoyproxy/ratelimit beside those of package slog.
var otherLevels = map[string]string{"trace": "debug", "warning": "warn", "fatal": "error", "panic": "error"}

// LogFormat is text or json.
type LogFormat string

// Words implements OneOf.
func (LogFormat) Words() []string { return []string{"text", "json"} }

// UnmarshalText accepts the words in any case.
func (f *LogFormat) UnmarshalText(text []byte) error {
	return choose(f, text, "is not a log format")
}
