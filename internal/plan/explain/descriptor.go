package explain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
)

// Domain is a domain in the arguments of a command, in the syntax of ParseDomain.
type Domain string

// Entries are a descriptor in the arguments of a command, in the syntax of ParseDescriptor.
type Entries []limiter.Entry

// ParseDescriptor parses a descriptor in the syntax of commands, such as user=alice,path=/login.
// Commas separate entries. The first = of an entry separates its key from its value; an entry
// without = has no value. A backslash makes the next character literal, such as a comma, an = in
// a key, or a backslash; \x and two hexadecimal digits stand for a byte.
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

// ParseDomain parses a domain, with backslashes as in ParseDescriptor.
func ParseDomain(text string) (string, error) {
	domain, _, _, err := unescape(text, "")
	return domain, err
}

// unescape reads text up to the first unescaped character of ends. It returns the text before
// that character, that character, and the text after it. end is 0 if text has no such character.
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

// FormatDescriptor returns entries in the syntax of ParseDescriptor. The result has no control
// characters and no invalid UTF-8, and needs no escaping between single quotes in a shell.
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

// FormatDomain returns domain in the syntax of ParseDomain.
func FormatDomain(domain string) string { return noFlag(escape(domain, `\`)) }

// escape puts a backslash before each character of special. Single quotes, invalid UTF-8 and
// all characters that are not printable become \x and two hexadecimal digits for each byte.
func escape(s, special string) string {
	isKept := func(r rune) bool {
		return r != '\'' && r != utf8.RuneError && unicode.IsPrint(r) && !strings.ContainsRune(special, r)
	}
	return plaintext.Escape(s, isKept, func(dst []byte, char string) []byte {
		if strings.Contains(special, char) {
			return append(append(dst, '\\'), char...)
		}
		return plaintext.AppendHex(dst, char)
	})
}

// noFlag returns text in a form that no command mistakes for a flag.
func noFlag(text string) string {
	if strings.HasPrefix(text, "-") {
		return `\` + text
	}
	return text
}

// Quote returns argument for a command line, in single quotes if a shell needs them.
func Quote(argument string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if argument != "" && strings.Trim(argument, safe) == "" {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
