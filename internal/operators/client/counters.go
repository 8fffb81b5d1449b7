package client

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"weir/internal/offline/explain"
	"weir/internal/operators"
)

// counters writes the counters of a descriptor, after a reset if it was one.
func (v view) counters(w io.Writer, c *operators.Counters, reset bool) {
	domain, descriptor := whole(c.Descriptor)
	fmt.Fprintf(w, "domain %s, descriptor %s\n", domain, descriptor)
	uncounted := ""
	if c.Exception == nil { // which else says what happens
		uncounted = ": requests are allowed and not counted"
	}
	if x := c.Exception; x != nil {
		fmt.Fprintf(w, "exception %s: %s %s, by %s: %s\n", explain.Quote(text(x.ID)), effect(x), v.Until(x.Until), text(x.By), text(x.Reason))
		switch x.Effect {
		case operators.Allow:
			fmt.Fprintln(w, "All requests are allowed and not counted.")
		case operators.Deny:
			fmt.Fprintln(w, "All requests are denied and not counted.")
		}
	}
	if c.Rule == "" {
		fmt.Fprintf(w, "No rule matches%s.\n", uncounted)
		fmt.Fprintf(w, "\nTo see why: weir explain --config PATH %s %s\n", domain, descriptor)
		return
	}
	fmt.Fprintf(w, "rule %s\n", ruled(c.Rule, c.Place))
	if len(c.Limits) == 0 {
		fmt.Fprintf(w, "This is a whitelist entry without limits%s.\n", uncounted)
		return
	}
	if reset {
		fmt.Fprintf(w, "Set %s to zero.\n", operators.Counted(c.Reset, "counter"))
	}
	fmt.Fprintln(w)
	if full := limits(w, c); c.Exception != nil {
		v.suggest(w, "To remove the exception", "except remove %s", explain.Quote(text(c.Exception.ID)))
	} else if full {
		v.suggest(w, "To let it through for a while", `except add %s %s --amount 10x --for 2h --reason "..."`, domain, descriptor)
	}
}

// limits writes a row for each limit, and the keys of those that are in Redis. It reports
// whether one of them admits nothing more.
func limits(w io.Writer, c *operators.Counters) (full bool) {
	rows := "LIMIT\tUSED\tREMAINING\tNEXT REQUEST\tFULL AGAIN\tNOTE\n"
	var keys []string
	for i := range c.Limits {
		l := &c.Limits[i]
		name, note := cell(limited(l.Limit, l.Rate)), note(l, c.Rule)
		if l.Unlimited || l.Replaced {
			rows += fmt.Sprintf("%s\t-\t-\t-\t-\t%s\n", name, note)
			continue
		}
		full = full || l.Remaining == 0 || l.BannedFor > 0
		remaining, next := fmt.Sprint(l.Remaining), in(l.RetryAfter)
		if x := c.Exception; x != nil && x.Effect == operators.Allow {
			remaining, next = "-", "now"
		} else if x != nil && x.Effect == operators.Deny {
			remaining, next = "-", "denied"
		}
		rows += fmt.Sprintf("%s\t%d of %d\t%s\t%s\t%s\t%s\n", name, l.Used, l.Amount, remaining, next, in(&l.WholeIn), note)
		if l.Key != "" {
			keys = append(keys, text(l.Key))
		}
	}
	table(w, "", rows)
	if len(keys) > 0 {
		fmt.Fprintf(w, "\nKeys in Redis: %s\n", strings.Join(keys, "\n               "))
	}
	return full
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
	add(l.BannedFor > 0, "banned for %s", operators.Span(operators.Seconds(l.BannedFor)))
	add(l.Mode != "" && l.Mode != "enforced", "%s", text(l.Mode))
	add(l.Rule != rule, "from %s", text(cmp.Or(l.Place, l.Rule)))
	return strings.Join(notes, ", ")
}

func quotedDomain(domain string) string { return explain.Quote(explain.FormatDomain(domain)) }

// whole returns domain and entries of a descriptor as arguments of commands.
func whole(d operators.Descriptor) (domain, descriptor string) {
	name, entries, err := d.Bytes()
	if err != nil {
		return text(d.Domain), fmt.Sprintf("(unreadable: %s)", text(err.Error()))
	}
	return quotedDomain(name), explain.Quote(explain.FormatDescriptor(entries))
}

// exceptions writes the exceptions in force.
func (v view) exceptions(w io.Writer, e *operators.ExceptionList) {
	if len(e.Exceptions) == 0 {
		fmt.Fprintln(w, "There are no exceptions.")
		return
	}
	uses := ""
	if e.Servers > 0 {
		uses = ", used" + servers(e.Servers)
	}
	fmt.Fprintf(w, "%s%s (times in %s):\n\n", operators.Counted(len(e.Exceptions), "exception"), uses, v.Zone())
	rows, reasons := "ID\tEFFECT\tUNTIL\tUSED\tBY\tDESCRIPTOR\n", ""
	for i := range e.Exceptions {
		x := &e.Exceptions[i]
		domain, descriptor := whole(x.Descriptor)
		id := explain.Quote(text(x.ID))
		rows += fmt.Sprintf("%s\t%s\t%s (%s)\t%d\t%s\t%s %s\n", id, effect(x), v.Clock(x.Until), operators.Span(x.Until.Sub(v.Now)), x.Used, short(x.By, maxCell/2), domain, descriptor)
		reasons += id + "\t" + text(x.Reason) + "\n"
	}
	table(w, "", rows)
	fmt.Fprintln(w, "\nReasons:")
	table(w, "  ", reasons)
	v.suggest(w, "To remove one", "except remove ID")
}

// added writes what became of a new exception.
func (v view) added(w io.Writer, x *operators.Exception) {
	domain, descriptor := whole(x.Descriptor)
	fmt.Fprintf(w, "exception %s: %s %s %s %s\n", explain.Quote(text(x.ID)), effect(x), domain, descriptor, v.Until(x.Until))
	if x.Effect != operators.Deny {
		fmt.Fprintln(w, "A request is still denied if the limit of another of its descriptors is used up.")
	}
	v.suggest(w, "To remove it earlier", "except remove %s", explain.Quote(text(x.ID)))
}

func removed(w io.Writer, id string) { fmt.Fprintf(w, "Exception %s removed.\n", text(id)) }

func effect(x *operators.Exception) string {
	if x.Effect == operators.Amount {
		return fmt.Sprintf("%vx", x.Factor)
	}
	return text(x.Effect)
}
