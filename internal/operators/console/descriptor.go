package console

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/offline/explain"

	"weir/internal/operators"
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

// parse returns the descriptor, or what is wrong with the texts.
func (a asked) parse() (domain string, entries []limiter.Entry, err error) {
	if a.Domain == "" || a.Text == "" {
		return "", nil, errors.New("a domain and a descriptor are required")
	}
	if domain, err = explain.ParseDomain(a.Domain); err != nil {
		return "", nil, fmt.Errorf("domain: %w", err)
	}
	if entries, err = explain.ParseDescriptor(a.Text); err != nil {
		return "", nil, fmt.Errorf("descriptor: %w", err)
	}
	return domain, entries, nil
}

// shown is a descriptor to read, and to click.
type shown struct {
	asked
	Entries []shownEntry
	// Whole reports whether nothing is cut, hashed or shared, so that asked is the descriptor.
	Whole  bool
	More   int    // entries that are left out
	Digest string // of a descriptor that is not whole
}

type shownEntry struct {
	limiter.Entry
	Note string // what else is to be known of it
}

// showExcerpt shows what is kept of a descriptor.
func showExcerpt(domain string, d operators.Excerpt) shown {
	text, lacks := d.Spell()
	s := shown{asked: asked{explain.FormatDomain(domain), text}, Whole: lacks == "", More: d.More, Digest: d.Digest}
	for i := range d.Entries {
		e := &d.Entries[i]
		entry, err := e.Bytes()
		note := ""
		switch {
		case err != nil:
			note = "not readable"
		case e.KeyBytes > 0:
			note = fmt.Sprintf("key cut, %d bytes", e.KeyBytes)
		case e.ValueBytes > 0:
			note = fmt.Sprintf("cut, %d bytes", e.ValueBytes)
		case e.Hashed:
			note = "hash"
		case e.Shared:
			note = "all that match"
		}
		s.Entries = append(s.Entries, shownEntry{entry, note})
	}
	if lacks == "all" {
		s.Entries = append(s.Entries, shownEntry{Note: "all"})
	}
	return s
}

// maxText is how many bytes of a text are shown where it is not cut already.
const maxText = 256

// showWhole shows a descriptor of which all is known.
func showWhole(d operators.Descriptor) shown {
	domain, entries, _ := d.Bytes() // its base64 is ours
	s := shown{asked: spell(domain, entries), Whole: true}
	for _, e := range entries {
		s.Entries = append(s.Entries, shownEntry{Entry: e})
	}
	return s
}

// shorten shows at most maxText bytes of a text, and how long it is.
func shorten(s string) string {
	if len(s) <= maxText {
		return plaintext.Line(s)
	}
	return fmt.Sprintf("%s… (cut, %d bytes)", plaintext.Line(operators.Begin(s, maxText)), len(s))
}
