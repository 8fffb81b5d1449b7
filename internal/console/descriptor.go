package console

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"weir/internal/adminapi"
	"weir/internal/excerpt"
	"weir/internal/explain"
	"weir/internal/limiter"
	"weir/internal/plaintext"
)

// asked is a descriptor as forms and links have it: as the text of commands, which can hold
// any bytes.
type asked struct{ Domain, Text string }

func ask(form url.Values) asked {
	return asked{strings.TrimSpace(form.Get("domain")), strings.TrimSpace(form.Get("descriptor"))}
}

func spell(domain string, entries []limiter.Entry) asked {
	return asked{explain.FormatDomain(domain), explain.FormatDescriptor(entries)}
}

// Query is the part of a link that asks for it.
func (a asked) Query() string {
	return url.Values{"domain": {a.Domain}, "descriptor": {a.Text}}.Encode()
}

// parse returns the domain and the entries, or what is wrong with the texts.
func (a asked) parse() (domain string, entries []limiter.Entry, err error) {
	if a.Domain == "" || a.Text == "" {
		return "", nil, errors.New("a domain and a descriptor are needed")
	}
	if domain, err = explain.ParseDomain(a.Domain); err != nil {
		return "", nil, fmt.Errorf("domain: %w", err)
	}
	if entries, err = explain.ParseDescriptor(a.Text); err != nil {
		return "", nil, fmt.Errorf("descriptor: %w", err)
	}
	return domain, entries, nil
}

// wire is the descriptor for a Server.
func (a asked) wire() (adminapi.Descriptor, error) {
	domain, entries, err := a.parse()
	if err != nil {
		return adminapi.Descriptor{}, err
	}
	pairs := make([]adminapi.KeyValue, len(entries))
	for i, e := range entries {
		pairs[i] = adminapi.KeyValue(e)
	}
	return adminapi.NewDescriptor(domain, pairs), nil
}

// shown is a descriptor to read, and to click.
type shown struct {
	asked
	Entries []shownEntry
	// Whole reports whether nothing is cut or hashed, so that asked is the descriptor.
	Whole  bool
	More   int    // entries that are left out
	Digest string // of a descriptor that is not whole
}

type shownEntry struct{ Key, Value, Note string }

// showExcerpt shows what is kept of a descriptor.
func showExcerpt(domain string, d excerpt.Descriptor) shown {
	s := shown{Whole: d.Digest == "", More: d.More, Digest: d.Digest}
	var entries []limiter.Entry
	for _, e := range d.Entries {
		entry := limiter.Entry{Key: bytesOf(e.Key, e.KeyBase64), Value: bytesOf(e.Value, e.ValueBase64)}
		entries = append(entries, entry)
		shows := shownEntry{Key: plaintext.Line(entry.Key), Value: plaintext.Line(entry.Value)}
		switch {
		case e.KeyBytes > 0:
			shows.Note = fmt.Sprintf("key cut, %d bytes", e.KeyBytes)
		case e.ValueBytes > 0:
			shows.Note = fmt.Sprintf("cut, %d bytes", e.ValueBytes)
		case e.Hashed:
			shows.Note, s.Whole = "hash", false
		case e.Shared:
			shows.Note = "all that match"
		}
		s.Entries = append(s.Entries, shows)
	}
	s.asked = spell(domain, entries)
	return s
}

// bytesOf returns the bytes that a text, or if it is there its base64, stands for.
func bytesOf(text, base string) string {
	if b, err := base64.StdEncoding.DecodeString(base); err == nil && base != "" {
		return string(b)
	}
	return text
}

// maxText is how many bytes of a text are shown where it is not cut already.
const maxText = 256

// showWire shows a descriptor of a Server.
func showWire(d adminapi.Descriptor) shown {
	domain, pairs, _ := d.Bytes() // its base64 is ours
	s := shown{Whole: true}
	entries := make([]limiter.Entry, len(pairs))
	for i, p := range pairs {
		entries[i] = limiter.Entry(p)
		s.Entries = append(s.Entries, shownEntry{Key: shorten(p.Key), Value: shorten(p.Value)})
	}
	s.asked = spell(domain, entries)
	return s
}

// shorten shows at most maxText bytes of a text, and how long it is.
func shorten(s string) string {
	if len(s) <= maxText {
		return plaintext.Line(s)
	}
	return fmt.Sprintf("%s… (cut, %d bytes)", plaintext.Line(excerpt.Begin(s, maxText)), len(s))
}
