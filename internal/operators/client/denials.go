package client

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/offline/explain"
	"weir/internal/operators"
)

// top writes which limits denied most in a window of d, which keys of them, and since when.
func (v view) top(w io.Writer, d *operators.Denials, window *operators.Window) {
	if len(window.Limits) == 0 {
		fmt.Fprintf(w, "Nothing has been denied %s%s.\n", v.Since(window.From), servers(d.Servers))
		return
	}
	fmt.Fprintf(w, "Denied %s%s:\n", v.Since(window.From), servers(d.Servers))
	var keys excerpts
	for i := range window.Limits {
		l := &window.Limits[i]
		fmt.Fprintf(w, "\ndomain %s, rule %s\n", quotedDomain(l.Domain), ruled(l.Rule, l.Place))
		fmt.Fprintf(w, "  %s%s: %s denied\n", limited(l.Limit, l.Rate), shadowed(l.Shadow), count(l.Denied, l.Error))
		rows := "DENIED\tSINCE\tLAST\tDESCRIPTOR\n"
		for j := range l.Keys {
			k := &l.Keys[j]
			rows += fmt.Sprintf("%s\t%s (%s)\t%s\t%s\n", count(k.Denied, k.Error), v.Clock(k.First), operators.Span(v.Now.Sub(k.First)), v.Clock(k.Last), keys.add(l.Domain, k.Descriptor))
		}
		table(w, "    ", rows)
		if l.OthersAtMost > 0 {
			fmt.Fprintf(w, "    every other descriptor: at most %d\n", l.OthersAtMost)
		}
	}
	if window.OthersAtMost > 0 {
		fmt.Fprintf(w, "\nEvery other limit denied at most %d.\n", window.OthersAtMost)
	}
	keys.end(v, w)
}

// denials writes the last denials of d, newest first, with the ID of the last request of each.
func (v view) denials(w io.Writer, d *operators.Denials) {
	if len(d.Last) == 0 {
		fmt.Fprintf(w, "No recent denials%s.\n", servers(d.Servers))
		return
	}
	fmt.Fprintf(w, "Last denials%s, newest first (times in %s):\n\n", servers(d.Servers), v.Zone())
	var keys excerpts
	withIDs := slices.ContainsFunc(d.Last, func(e operators.LastDenial) bool { return e.RequestID != "" })
	rows := "LAST\tDENIED\tSINCE\tRETRY\tLIMIT\tRULE\t"
	if withIDs {
		rows += "REQUEST\t"
	}
	rows += "DESCRIPTOR\n"
	for i := range d.Last {
		e := &d.Last[i]
		place := cell(e.Rule) // what leads to it, where nobody knows where it is written
		if e.Place != "" {
			place = text(e.Place)
		}
		since := "-"
		if e.Count > 1 {
			since = v.Clock(e.First)
		}
		rows += fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%s\t", v.Clock(e.Last), e.Count, since, strings.TrimPrefix(in(e.RetryAfter), "in "),
			cell(limited(e.Limit, e.Rate)+shadowed(e.Shadow)), place)
		if withIDs {
			rows += cell(e.RequestID) + "\t"
		}
		rows += fmt.Sprintf("%s %s\n", quotedDomain(e.Domain), keys.add(e.Domain, e.Descriptor))
	}
	table(w, "", rows)
	keys.end(v, w)
}

// servers says how many servers an answer is of, if that is known.
func servers(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " on this server"
	default:
		return fmt.Sprintf(" on %d servers", n)
	}
}

func shadowed(shadow bool) string {
	if shadow {
		return " (shadow)"
	}
	return ""
}

// What keeps an excerpt from being pasted, and what the text says of it.
var notPasted = []struct{ lacks, why string }{
	{"cut", "only the start is known, so you cannot paste it into a command."},
	{"hash", "a hash, because of CACHE_KEY_HASH_VALUES; commands need the value itself."},
	{"all", "all descriptors that no other rule matches share one counter; commands need one of them."},
	{"shared", "all matching values share one counter; commands need one of these values."},
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
	return strings.TrimSpace(shown + " (" + lacks + ")")
}

// end says what the marks mean that were shown, and which command may be wanted next.
func (s *excerpts) end(v view, w io.Writer) {
	line := "\n"
	for _, m := range notPasted {
		if s.lack[m.lacks] {
			fmt.Fprintf(w, "%s(%s): %s\n", line, m.lacks, m.why)
			line = ""
		}
	}
	if s.next != "" {
		v.suggest(w, "To see the counters of the first", "peek %s", s.next)
	}
}
