package client

import (
	"cmp"
	"fmt"
	"io"

	"weir/internal/offline/explain"

	"weir/internal/operators"
)

func quotedDomain(domain string) string { return explain.Quote(explain.FormatDomain(domain)) }

// whole returns domain and entries of a descriptor as arguments of commands.
func whole(d operators.Descriptor) (domain, descriptor string) {
	name, entries, err := d.Bytes()
	if err != nil {
		return text(d.Domain), fmt.Sprintf("(not readable: %s)", text(err.Error()))
	}
	return quotedDomain(name), explain.Quote(explain.FormatDescriptor(entries))
}

// What keeps an excerpt from being pasted, and what the text says of it.
var notPasted = []struct{ lacks, why string }{
	{"cut", "only the start is known, so it cannot be pasted."},
	{"hash", "the hash of a value (CACHE_KEY_HASH_VALUES); commands need the value itself."},
	{"shared", "one counter for all values that match; commands need one of these values."},
}

// excerpts are those that a text has shown.
type excerpts struct {
	lack map[string]bool // what they lack
	next string          // the first that can be pasted, as arguments of a command
}

// add returns an excerpt as an argument of commands, or to be read with a mark that says why
// it is none.
func (s *excerpts) add(domain string, d operators.Excerpt) string {
	shown, lacks := d.Spell()
	if lacks == "" {
		shown = explain.Quote(shown)
		s.next = cmp.Or(s.next, quotedDomain(domain)+" "+shown)
		return shown
	}
	if s.lack == nil {
		s.lack = map[string]bool{}
	}
	s.lack[lacks] = true
	if lacks == "cut" {
		shown += "…"
		if d.Digest != "" { // which tells apart excerpts that begin alike
			shown += " #" + text(d.Digest)
		}
	}
	return shown + " (" + lacks + ")"
}

// end says what the marks mean that were shown, and which command may be wanted next.
func (s *excerpts) end(v View, w io.Writer) {
	line := "\n"
	for _, m := range notPasted {
		if s.lack[m.lacks] {
			fmt.Fprintf(w, "%s(%s): %s\n", line, m.lacks, m.why)
			line = ""
		}
	}
	if s.next != "" {
		v.suggest(w, "The counters of the first", "peek %s", s.next)
	}
}
