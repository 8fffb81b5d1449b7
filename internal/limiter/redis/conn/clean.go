package conn

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText limits the bytes of an error text.
const maxText = 400

// cleanError is an error with a text that is safe to show.
type cleanError struct {
	error
	text string
}

func (e cleanError) Error() string { return e.text }

func (e cleanError) Unwrap() error { return e.error }

// plainly replaces phrases of go-redis about sentinels.
var plainly = strings.NewReplacer(
	"redis: all sentinels specified in configuration are unreachable", "asking the sentinels for the primary",
	"redis: nil", "the sentinels know no primary of this name")

// clean returns err, or nil if err is nil. Its text is one line of at most maxText bytes and some
// dots, without passwords. The text may come from anything that listens at the address of Redis,
// and a Redis without AUTH repeats the arguments of AUTH in its error.
func (c *Client) clean(err error) error {
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(plainly.Replace(err.Error()), ", with args beginning with")
	// A shorter password may be part of a longer one, so the longest goes first.
	longestFirst := func(a, b string) int { return cmp.Compare(len(b), len(a)) }
	for _, secret := range slices.SortedFunc(slices.Values(*c.secrets.Load()), longestFirst) {
		text = strings.ReplaceAll(text, secret, "***")
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return cleanError{err, text}
}
