package explain

import (
	"errors"
	"fmt"
	"strings"

	"weir/internal/limiter"
)

// ParseDescriptor reads a descriptor as people write it in a command:
// user=alice,path=/login. A comma ends an entry, and the first = in it ends its
// key; without one, the entry has no value. A backslash takes the character
// after it as it is, be it a comma, an = of a key, or a backslash.
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
			i++
			part.WriteByte(text[i])
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

// FormatDescriptor returns entries as ParseDescriptor reads them. All keys must have
// some text.
func FormatDescriptor(entries []limiter.Entry) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		writeEscaped(&b, e.Key, `,=\`)
		b.WriteByte('=')
		writeEscaped(&b, e.Value, `,\`)
	}
	return b.String()
}

// writeEscaped writes s with a backslash before each of some characters.
func writeEscaped(b *strings.Builder, s, escaped string) {
	for i := range len(s) {
		if strings.IndexByte(escaped, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
}
