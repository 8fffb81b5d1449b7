package explain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/limiter"
)

// Domain is an argument of commands, as ParseDomain reads it.
type Domain string

// Entries are an argument of commands, as ParseDescriptor reads it.
type Entries []limiter.Entry

// ParseDescriptor reads a descriptor as people write it in a command:
// user=alice,path=/login. A comma ends an entry, and the first = in it ends its
// key; without one, the entry has no value. A backslash takes the character
// after it as it is, be it a comma, an = of a key, or a backslash; \x and two
// hexadecimal digits are any byte.
func ParseDescriptor(text string) (entries []limiter.Entry, err error) {
	for end := byte(','); end == ','; {
		var e limiter.Entry
		if e.Key, end, text, err = unescape(text, ",="); err == nil && end == '=' {
			e.Value, end, text, err = unescape(text, ",")
		}
		switch {
		case err != nil:
			return nil, err
		case e.Key == "":
			return nil, fmt.Errorf("entry %d has no key", len(entries)+1)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// ParseDomain reads a domain with the backslashes of ParseDescriptor.
func ParseDomain(text string) (string, error) {
	domain, _, _, err := unescape(text, "")
	return domain, err
}

// unescape reads text up to one of the characters of ends, which it returns with what
// follows, or up to its end.
func unescape(text, ends string) (read string, end byte, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case strings.IndexByte(ends, c) >= 0:
			return b.String(), c, text[i+1:], nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 == len(text):
			return "", 0, "", errors.New(`a backslash at the end, write \\ for one`)
		case text[i+1] == 'x':
			digits, err := hex.DecodeString(text[i+2 : min(i+4, len(text))])
			if err != nil || len(digits) == 0 {
				return "", 0, "", errors.New(`\x needs two hexadecimal digits, such as \x0a`)
			}
			b.Write(digits)
			i += 3
		default:
			i++
			b.WriteByte(text[i])
		}
	}
	return b.String(), 0, "", nil
}

// FormatDescriptor returns entries in the form that ParseDescriptor reads, without
// control characters and invalid UTF-8, whatever they hold. Between the single quotes
// of a shell it stays as it is.
func FormatDescriptor(entries []limiter.Entry) string {
	var texts []string
	for _, e := range entries {
		text := escape(e.Key, `\,=`)
		if e.Value != "" {
			text += "=" + escape(e.Value, `\,`)
		}
		texts = append(texts, text)
	}
	return noFlag(strings.Join(texts, ","))
}

// FormatDomain returns domain in the form that ParseDomain reads.
func FormatDomain(domain string) string { return noFlag(escape(domain, `\`)) }

// escape puts a backslash before each of special. Bytes are spelled that a terminal obeys
// or drops, that look like a blank, or that end the quotes of a shell.
func escape(s, special string) string {
	var b strings.Builder
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case strings.ContainsRune(special, r):
			b.WriteString(`\` + s[:size])
		case r == '\'' || r == utf8.RuneError || !unicode.IsPrint(r):
			for _, c := range []byte(s[:size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// noFlag keeps an argument from being read as a flag.
func noFlag(text string) string {
	if strings.HasPrefix(text, "-") {
		return `\` + text
	}
	return text
}

// Quote returns an argument as a shell takes it.
func Quote(argument string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if argument != "" && strings.Trim(argument, safe) == "" {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
