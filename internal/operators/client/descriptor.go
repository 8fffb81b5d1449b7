package client

import (
	"fmt"

	"weir/internal/limiter"
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
	var entries []limiter.Entry
	var cut, hash, shared bool
	for _, e := range d.Entries {
		entry, err := e.Bytes()
		entries = append(entries, entry)
		cut = cut || err != nil || e.KeyBytes > 0 || e.ValueBytes > 0
		hash, shared = hash || e.Hashed, shared || e.Shared
	}
	shown = explain.FormatDescriptor(entries)
	switch {
	case cut || d.More > 0:
		return shown + "…" + digest(d.Digest), notPasted[0].mark
	case hash:
		return shown, notPasted[1].mark
	case shared:
		return shown, notPasted[2].mark
	default:
		return explain.Quote(shown), ""
	}
}

// digest tells apart excerpts that begin alike.
func digest(d string) string {
	if d == "" {
		return ""
	}
	return " #" + text(d)
}
