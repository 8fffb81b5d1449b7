package plaintext

// RedisKey returns a key in the syntax of redis-cli: unchanged or, if it contains quotes,
// backslashes or bytes that are not printable ASCII, in quotes and with these bytes escaped like
// \xff.
func RedisKey(key []byte) string {
	isPlain := func(r rune) bool { return ' ' <= r && r <= '~' && r != '"' && r != '\\' }
	if text := Escape(string(key), isPlain, AppendHex); text != string(key) {
		return `"` + text + `"`
	}
	return string(key)
}
