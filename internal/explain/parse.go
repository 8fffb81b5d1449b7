package explain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/limiter"
)

// ParseDescriptor reads a descriptor as people write it in a command:
// user=alice,path=/login. A comma ends an entry, and the first = in it ends its
// key; without one, the entry has no value. A backslash takes the character
// after it as it is, be it a comma, an = of a key, or a backslash; \xff is the byte with
// that number.
func ParseDescriptor(text string) ([]limiter.Entry, error) {
	var entries []limiter.Entry
	var e limiter.Entry
	var part strings.Builder
	inValue := false
	end := func() error {
		if inValue {
			e.Value = part.String()
		} else {
			e.Key = part.String()
		}
		if e.Key == "" {
			return fmt.Errorf("entry %d has no key", len(entries)+1)
		}
		entries = append(entries, e)
		e, inValue = limiter.Entry{}, false
		part.Reset()
		return nil
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 == len(text):
			return nil, errors.New(`a backslash at the end, write \\ for one`)
		case c == '\\':
			b, n := escaped(text[i+1:])
			part.WriteByte(b)
			i += n
		case c == ',':
			if err := end(); err != nil {
				return nil, err
			}
		case c == '=' && !inValue:
			e.Key, inValue = part.String(), true
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return entries, end()
}

// escaped returns the byte that the text after a backslash stands for, and the length of
// that text.
func escaped(text string) (b byte, n int) {
	if len(text) >= 3 && text[0] == 'x' {
		if b, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
			return byte(b), 3
		}
	}
	return text[0], 1
}

// SpellDescriptor writes a descriptor so that ParseDescriptor reads it, as text that can
// be shown.
func SpellDescriptor(entries []limiter.Entry) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		spell(&b, e.Key, `,=\`)
		if e.Value != "" {
			b.WriteByte('=')
			spell(&b, e.Value, `,\`)
		}
	}
	return b.String()
}

// spell writes s with a backslash before the characters in special. Spaces at its ends and
// what cannot be shown are bytes with their numbers.
func spell(b *strings.Builder, s, special string) {
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		switch {
		case strings.ContainsRune(special, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == utf8.RuneError, !unicode.IsGraphic(r), unicode.IsSpace(r) && (i == 0 || i+size == len(s)):
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(b, `\x%02x`, c)
			}
		default:
			b.WriteRune(r)
		}
	}
}
