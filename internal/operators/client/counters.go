package client

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"weir/internal/offline/explain"

	"weir/internal/operators"
)

// Counters writes the counters of a descriptor, after a reset if it was one.
func (v View) Counters(w io.Writer, c *operators.Counters, reset bool) {
	domain, descriptor := whole(c.Descriptor)
	fmt.Fprintf(w, "domain %s, descriptor %s\n", domain, descriptor)
	if c.Exception != nil {
		fmt.Fprintf(w, "exception %s: %s %s, by %s: %s\n", explain.Quote(text(c.Exception.ID)), effect(c.Exception), v.until(c.Exception.Until), text(c.Exception.By), text(c.Exception.Reason))
		fmt.Fprint(w, instead(c.Exception))
	}
	if c.Rule == "" {
		fmt.Fprintf(w, "No rule matches it%s.\n", uncounted(c))
		fmt.Fprintf(w, "\nWhy, by the files of rules: weir explain --config PATH %s %s\n", domain, descriptor)
		return
	}
	fmt.Fprintf(w, "rule %s\n", ruled(c.Rule, c.Place))
	if len(c.Limits) == 0 {
		fmt.Fprintf(w, "It is a whitelist entry, without limits%s.\n", uncounted(c))
		return
	}
	if reset {
		fmt.Fprintf(w, "Set to zero: %s.\n", plural(c.Reset, "counter", "counters"))
	}
	fmt.Fprintln(w)
	v.limits(w, c)
	switch used := full(c.Limits); {
	case used && c.Exception == nil:
		v.suggest(w, "Let it through for a while", `except add %s %s --amount 10x --for 2h --reason "..."`, domain, descriptor)
	case c.Exception != nil:
		v.suggest(w, "End the exception", "except remove %s", explain.Quote(text(c.Exception.ID)))
	}
}

// instead says what an exception does in the place of limits, "" if it only multiplies them.
func instead(x *operators.Exception) string {
	switch x.Effect {
	case operators.Allow:
		return "It admits every request and counts nothing.\n"
	case operators.Deny:
		return "It denies every request and counts nothing.\n"
	default:
		return ""
	}
}

// uncounted says what becomes of a descriptor without limits, unless an exception does.
func uncounted(c *operators.Counters) string {
	if c.Exception != nil {
		return ""
	}
	return ": it is admitted and not counted"
}

// limits writes a row for each limit, and the keys of those that are in Redis.
func (v View) limits(w io.Writer, c *operators.Counters) {
	t := newTable(w, "")
	t.row("LIMIT", "USED", "REMAINS", "ONE MORE", "ALL FREE", "NOTE")
	var keys []string
	for i := range c.Limits {
		l := &c.Limits[i]
		name, note := cell(limited(l.Limit, l.Rate)), note(l, c.Rule)
		if l.Unlimited || l.Replaced {
			t.row(name, "-", "-", "-", "-", note)
			continue
		}
		free := l.WholeIn
		remains, oneMore := fmt.Sprint(l.Remaining), in(l.RetryAfter)
		if x := c.Exception; x != nil && instead(x) != "" {
			remains, oneMore = "-", map[string]string{operators.Allow: "now", operators.Deny: "denied"}[x.Effect]
		}
		t.row(name, fmt.Sprintf("%d of %d", l.Used, l.Amount), remains, oneMore, in(&free), note)
		if l.Key != "" {
			keys = append(keys, text(l.Key))
		}
	}
	t.end()
	if len(keys) > 0 {
		fmt.Fprintf(w, "\nIn Redis: %s\n", strings.Join(keys, "\n          "))
	}
}

// note says what is special about a limit of a descriptor whose rule is given.
func note(l *operators.Counter, rule string) string {
	var notes []string
	add := func(is bool, format string, args ...any) {
		if is {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(l.Unlimited && l.Limit != "unlimited", "unlimited")
	add(l.Replaced, "replaced by another limit")
	add(l.BannedFor > 0, "banned %s", Span(Seconds(l.BannedFor)))
	add(l.Mode != "" && l.Mode != "enforced", "%s", text(l.Mode))
	add(l.Rule != rule, "of %s", text(cmp.Or(l.Place, l.Rule)))
	return strings.Join(notes, ", ")
}

// full reports whether a limit admits nothing more.
func full(limits []operators.Counter) bool {
	for i := range limits {
		if l := &limits[i]; !l.Unlimited && !l.Replaced && (l.Remaining == 0 || l.BannedFor > 0) {
			return true
		}
	}
	return false
}
