package client

import (
	"fmt"

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
var notPasted = []struct{ mark, why string }{
	{"(cut)", "only the start is known, so it cannot be pasted."},
	{"(hash)", "the hash of a value (CACHE_KEY_HASH_VALUES); commands need the value itself."},
	{"(shared)", "one counter for all values that match; commands need one of these values."},
}

// excerpted returns an excerpt as an argument of commands and "", or to be read with the
// mark of notPasted that says why it is no argument.
func excerpted(d operators.Excerpt) (shown, mark string) {
	shown, lacks := d.Spell()
	switch {
	case lacks == "":
		return explain.Quote(shown), ""
	case lacks == "cut" && d.Digest != "": // which tells apart excerpts that begin alike
		shown += "… #" + text(d.Digest)
	case lacks == "cut":
		shown += "…"
	}
	return shown, "(" + lacks + ")"
}
