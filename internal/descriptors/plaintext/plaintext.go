// Package plaintext makes untrusted text safe to show: terminals interpret control bytes, and
// text after a line break could imitate output of Weir. It also decodes hexadecimal escapes,
// quotes keys for redis-cli, and formats large numbers.
package plaintext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line escapes, in Go syntax, all characters of s that are not graphic: control characters, line
// breaks, marks that change the direction of writing, and bytes that are not UTF-8. If there are
// none, it returns s itself.
func Line(s string) string { return Escape(s, isShown, appendQuoted) }

// Lines is like Line, but keeps line breaks.
func Lines(s string) string {
	return Escape(s, func(r rune) bool { return r == '\n' || isShown(r) }, appendQuoted)
}

// isShown returns false for U+FFFD, because decoding also returns U+FFFD for bytes that are not
// UTF-8. appendQuoted then escapes only such bytes, not a U+FFFD in the text.
func isShown(r rune) bool { return unicode.IsGraphic(r) && r != unicode.ReplacementChar }

func appendQuoted(dst []byte, char string) []byte {
	quoted := strconv.Quote(char)
	return append(dst, quoted[1:len(quoted)-1]...)
}

// Escape returns s with each character that keep rejects replaced by the output of
// appendEscaped. keep gets U+FFFD for a byte that is not UTF-8.
func Escape(s string, keep func(rune) bool, appendEscaped func(dst []byte, char string) []byte) string {
	if strings.IndexFunc(s, func(r rune) bool { return !keep(r) }) < 0 {
		return s
	}
	b := make([]byte, 0, len(s)+len(s)/8)
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if keep(r) {
			b = append(b, rest[:size]...)
		} else {
			b = appendEscaped(b, rest[:size])
		}
		rest = rest[size:]
	}
	return string(b)
}

// AppendHex appends each byte of text as \x and two hexadecimal digits.
func AppendHex(dst []byte, text string) []byte {
	for _, c := range []byte(text) {
		dst = fmt.Appendf(dst, `\x%02x`, c)
	}
	return dst
}

// Number formats a whole number with commas between thousands.
func Number(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Cut returns s or, if s is longer than the given number of bytes, the beginning of s and its length.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}
