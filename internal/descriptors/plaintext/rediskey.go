package plaintext

import "fmt"

// RedisKey returns a key as redis-cli takes it: unchanged, or in quotes if it contains quotes,
// backslashes or bytes that are not printable ASCII, which are then escaped like \xff.
func RedisKey(key []byte) string {
	text := ""
	for _, c := range key {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			text += fmt.Sprintf(`\x%02x`, c)
		} else {
			text += string(c)
		}
	}
	if text == string(key) {
		return text
	}
	return `"` + text + `"`
}
