// Package plaintext makes untrusted text safe to show: terminals interpret control bytes, and a
// line break could imitate a line of our own. It also decodes hexadecimal escapes, quotes keys for
// redis-cli, and formats large numbers.
package plaintext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line escapes, in Go syntax, all characters of s that are not graphic: control characters,
// line breaks, marks that change the direction of writing, and bytes that are not UTF-8. It
// returns s itself if there are none.
func Line(s string) string { return escape(s, "") }

// Lines is like Line, but keeps line breaks.
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

// shown reports whether r is kept as it is. It returns false for U+FFFD, because decoding also
// returns that for bytes that are not UTF-8. Of the two, strconv.Quote escapes only the bytes.
func shown(r rune, kept string) bool {
	return unicode.IsGraphic(r) && r != unicode.ReplacementChar || strings.ContainsRune(kept, r)
}

// Number formats a whole number with commas between thousands.
func Number(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Cut returns s, or its first most bytes and its length if it is longer.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}
