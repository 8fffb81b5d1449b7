package explain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/limiter"
)

// FormatDescriptor returns entries in the form that ParseDescriptor reads, without
// control characters and invalid UTF-8, whatever they hold. Between the single quotes
// of a shell it stays as it is.
func FormatDescriptor(entries []limiter.Entry) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		escape(&b, e.Key, `\,=`)
		if e.Value != "" {
			b.WriteByte('=')
			escape(&b, e.Value, `\,`)
		}
	}
	return noFlag(b.String())
}

// FormatDomain returns domain in the form that ParseDomain reads.
func FormatDomain(domain string) string {
	var b strings.Builder
	escape(&b, domain, `\`)
	return noFlag(b.String())
}

// escape appends s with a backslash before each of special. Bytes are spelled that a
// terminal obeys or drops, that look like a blank, or that end the quotes of a shell.
func escape(b *strings.Builder, s, special string) {
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case strings.ContainsRune(special, r):
			b.WriteByte('\\')
			b.WriteString(s[:size])
		case r == '\'' || r == utf8.RuneError || !unicode.IsPrint(r):
			for _, c := range []byte(s[:size]) {
				fmt.Fprintf(b, `\x%02x`, c)
			}
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
}

// noFlag keeps an argument from being read as a flag.
func noFlag(text string) string {
	if strings.HasPrefix(text, "-") {
		return `\` + text
	}
	return text
}
