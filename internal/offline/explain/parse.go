package explain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"weir/internal/limiter"
)

// ParseDescriptor reads a descriptor as people write it in a command:
// user=alice,path=/login. A comma ends an entry, and the first = in it ends its
// key; without one, the entry has no value. A backslash takes the character
// after it as it is, be it a comma, an = of a key, or a backslash; \x and two
// hexadecimal digits are any byte.
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
		case c == '\\':
			b, n, err := escaped(text[i+1:])
			if err != nil {
				return nil, err
			}
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

// ParseDomain reads a domain with the backslashes of ParseDescriptor.
func ParseDomain(text string) (string, error) {
	var domain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			domain.WriteByte(text[i])
			continue
		}
		b, n, err := escaped(text[i+1:])
		if err != nil {
			return "", err
		}
		domain.WriteByte(b)
		i += n
	}
	return domain.String(), nil
}

// escaped returns the byte for which a backslash and the n first bytes of rest stand.
func escaped(rest string) (b byte, n int, err error) {
	switch {
	case rest == "":
		return 0, 0, errors.New(`a backslash at the end, write \\ for one`)
	case rest[0] != 'x':
		return rest[0], 1, nil
	case len(rest) < 3:
		return 0, 0, errHex
	}
	digits, err := hex.DecodeString(rest[1:3])
	if err != nil {
		return 0, 0, errHex
	}
	return digits[0], 3, nil
}

var errHex = errors.New(`\x needs two hexadecimal digits, such as \x0a`)
