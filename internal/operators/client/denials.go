package client

import (
	"fmt"
	"io"
	"strings"

	"weir/internal/operators"
)

// Top writes which limits denied most in a window of d, which keys of them, and since when.
func (v View) Top(w io.Writer, d *operators.Denials, window *operators.Window) {
	if len(window.Limits) == 0 {
		fmt.Fprintf(w, "Nothing was denied %s%s.\n", v.since(window.From), servers(d.Servers))
		return
	}
	fmt.Fprintf(w, "Denied %s%s:\n", v.since(window.From), servers(d.Servers))
	var keys excerpts
	for i := range window.Limits {
		l := &window.Limits[i]
		fmt.Fprintf(w, "\ndomain %s, rule %s\n", quotedDomain(l.Domain), ruled(l.Rule, l.Place))
		fmt.Fprintf(w, "  %s%s: %s denied\n", limited(l.Limit, l.Rate), shadowed(l.Shadow), count(l.Denied, l.Error))
		t := newTable(w, "    ")
		t.row("DENIED", "SINCE", "LAST", "DESCRIPTOR")
		for j := range l.Keys {
			k := &l.Keys[j]
			shown := keys.add(l.Domain, k.Descriptor)
			t.row(count(k.Denied, k.Error), fmt.Sprintf("%s (%s)", v.clock(k.First), Span(v.Now.Sub(k.First))), v.clock(k.Last), shown)
		}
		t.end()
		if l.OthersAtMost > 0 {
			fmt.Fprintf(w, "    each other descriptor: at most %d\n", l.OthersAtMost)
		}
	}
	if window.OthersAtMost > 0 {
		fmt.Fprintf(w, "\nEach other limit denied at most %d.\n", window.OthersAtMost)
	}
	keys.end(v, w)
}

// Denials writes the last denials of d, newest first.
func (v View) Denials(w io.Writer, d *operators.Denials) {
	if len(d.Last) == 0 {
		fmt.Fprintf(w, "Nothing was denied lately%s.\n", servers(d.Servers))
		return
	}
	fmt.Fprintf(w, "The last denials%s, newest first, times in %s:\n\n", servers(d.Servers), v.zone())
	var keys excerpts
	t := newTable(w, "")
	t.row("AT", "RETRY", "LIMIT", "RULE", "DESCRIPTOR")
	for i := range d.Last {
		e := &d.Last[i]
		shown := quotedDomain(e.Domain) + " " + keys.add(e.Domain, e.Descriptor)
		t.row(v.clock(e.At), strings.TrimPrefix(in(e.RetryAfter), "in "), cell(limited(e.Limit, e.Rate)+shadowed(e.Shadow)), located(&e.Source), shown)
	}
	t.end()
	keys.end(v, w)
}

// located is where the rule is written, or else what leads to it.
func located(s *operators.Source) string {
	if s.Place != "" {
		return text(s.Place)
	}
	return cell(s.Rule)
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
