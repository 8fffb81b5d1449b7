package plaintext

import (
	"strconv"
	"strings"
)

// Decode decodes the bytes in s that are written as a mark and two hexadecimal digits, such as
// %41 in URLs or \x41 in nginx logs. It keeps a mark without two digits.
func Decode(s, mark string) string {
	if !strings.Contains(s, mark) {
		return s
	}
	b := make([]byte, 0, len(s))
	for s != "" {
		if digits, found := strings.CutPrefix(s, mark); found && len(digits) >= 2 {
			if c, err := strconv.ParseUint(digits[:2], 16, 8); err == nil {
				b, s = append(b, byte(c)), digits[2:]
				continue
			}
		}
		b, s = append(b, s[0]), s[1:]
	}
	return string(b)
}
