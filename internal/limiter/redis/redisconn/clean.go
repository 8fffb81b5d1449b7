package redisconn

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is the most bytes of an error that Redis wrote.
const maxText = 400

// cleanError is an error with a text that can be shown.
type cleanError struct {
	error
	text string
}

func (e cleanError) Error() string { return e.text }

func (e cleanError) Unwrap() error { return e.error }

// passwords returns those that the client was opened with, and those that new connections
// try.
func (c *Client) passwords() []string {
	list := slices.Concat(c.secrets, c.dialer.passwords())
	if s := c.dialer.sentinels; s != nil {
		list = append(list, s.dialer.passwords()...)
	}
	return list
}

// Clean returns err with a text of one line of some hundred bytes that holds no
// password; nil for nil. Redis, or what is taken for it, may say anything, such as the
// arguments of AUTH if it knows no AUTH.
func (c *Client) Clean(err error) error {
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	for _, secret := range c.passwords() {
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
