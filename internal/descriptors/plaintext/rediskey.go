package plaintext

// RedisKey returns a key as redis-cli takes it: unchanged, or in quotes if it contains quotes,
// backslashes or bytes that are not printable ASCII, which are then escaped like \xff.
func RedisKey(key []byte) string {
	isPlain := func(r rune) bool { return ' ' <= r && r <= '~' && r != '"' && r != '\\' }
	if text := Escape(string(key), isPlain, AppendHex); text != string(key) {
		return `"` + text + `"`
	}
	return string(key)
}
