package plaintext

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns JSON in which what is no graphic character is escaped, but for the line
// breaks between tokens: encoding/json leaves some that a terminal obeys. What is read
// from it stays the same. JSON without any is returned as it is.
func JSON(text []byte) []byte {
	if bytes.IndexFunc(text, obeyed) < 0 {
		return text
	}
	escaped := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range string(text) {
		if !obeyed(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}

// obeyed reports whether a terminal may do something else with r than show it. Line
// breaks are between tokens only.
func obeyed(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }
