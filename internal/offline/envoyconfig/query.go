package envoyconfig

import "strings"

// parameter returns the first value of a parameter of a query. Names and values are
// compared and returned decoded if decode, else as they are sent: Envoy does the one for
// rate limits and the other for routes.
func parameter(query, name string, decode bool) (value string, ok bool) {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(part, "=")
		if decode {
			key = percentDecoded(key)
		}
		if key == name {
			if decode {
				value = percentDecoded(value)
			}
			return value, true
		}
	}
	return "", false
}

// percentDecoded returns s with %XX decoded. What is no pair of hexadecimal digits
// stays, as does a plus.
func percentDecoded(s string) string {
	first := strings.IndexByte(s, '%')
	if first < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	b = append(b, s[:first]...)
	for i := first; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if high, low := hexDigit(s[i+1]), hexDigit(s[i+2]); high >= 0 && low >= 0 {
				b = append(b, byte(high<<4|low))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
