// Package plaintext makes what others wrote fit to be shown as text: a terminal
// obeys control bytes, and a line break pretends to be a line of ours. Decode reads
// bytes that others wrote as text, and RedisKey quotes a key for redis-cli.
package plaintext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s with everything escaped, as Go does, that is no graphic
// character: control characters, line breaks, marks that turn the direction of
// writing, and bytes that are no UTF-8. Text without any is returned as it is.
func Line(s string) string { return escape(s, "") }

// Lines is Line for text of several lines: it leaves the line breaks.
func Lines(s string) string { return escape(s, "\n") }

func escape(s, kept string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !shown(r, kept) }) < 0 {
		return s
	}
	b := make([]byte, 0, len(s)+len(s)/8)
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if shown(r, kept) {
			b = append(b, rest[:size]...)
		} else {
			quoted := strconv.Quote(rest[:size])
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		rest = rest[size:]
	}
	return string(b)
}

// shown reports whether r is shown as it is. U+FFFD also stands for bytes that are
// no UTF-8, and Quote tells these apart.
func shown(r rune, kept string) bool {
	return unicode.IsGraphic(r) && r != unicode.ReplacementChar || strings.ContainsRune(kept, r)
}

// Cut returns s, or its first most bytes and its length if it is longer.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}
