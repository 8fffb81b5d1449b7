package plaintext

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON escapes all characters in JSON text that are not graphic, because encoding/json keeps
// some characters that terminals interpret. It keeps line breaks, which occur only between tokens.
// The meaning of the JSON stays the same. If there is nothing to escape, JSON returns text
// itself.
func JSON(text []byte) []byte {
	if bytes.IndexFunc(text, needsEscape) < 0 {
		return text
	}
	escaped := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range string(text) {
		if !needsEscape(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}

// needsEscape reports whether a terminal may interpret r instead of showing it.
func needsEscape(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }
