package client

import (
	"fmt"
	"io"

	"weir/internal/offline/explain"

	"weir/internal/operators"
)

// Exceptions writes the exceptions in force.
func (v View) Exceptions(w io.Writer, e *operators.ExceptionList) {
	if len(e.Exceptions) == 0 {
		fmt.Fprintln(w, "There are no exceptions.")
		return
	}
	fmt.Fprintf(w, "%s%s, times in %s:\n\n", plural(len(e.Exceptions), "exception", "exceptions"), counted(e.Servers), v.zone())
	t := newTable(w, "")
	t.row("ID", "EFFECT", "UNTIL", "USED", "BY", "DESCRIPTOR")
	for i := range e.Exceptions {
		x := &e.Exceptions[i]
		domain, descriptor := whole(x.Descriptor)
		left := fmt.Sprintf("%s (%s)", v.clock(x.Until), Span(x.Until.Sub(v.Now)))
		t.row(explain.Quote(text(x.ID)), effect(x), left, x.Used, narrow(x.By), domain+" "+descriptor)
	}
	t.end()
	fmt.Fprintln(w, "\nReasons:")
	t = newTable(w, "  ")
	for i := range e.Exceptions {
		t.row(explain.Quote(text(e.Exceptions[i].ID)), text(e.Exceptions[i].Reason))
	}
	t.end()
	v.suggest(w, "End one", "except remove ID")
}

// Added writes what became of a new exception.
func (v View) Added(w io.Writer, x *operators.Exception) {
	domain, descriptor := whole(x.Descriptor)
	fmt.Fprintf(w, "exception %s: %s %s %s %s\n", explain.Quote(text(x.ID)), effect(x), domain, descriptor, v.until(x.Until))
	v.suggest(w, "End it earlier", "except remove %s", explain.Quote(text(x.ID)))
}

// Removed writes that an exception has ended.
func (v View) Removed(w io.Writer, id string) {
	fmt.Fprintf(w, "The exception %s is removed.\n", text(id))
}

// counted says whose uses are counted.
func counted(n int) string {
	if n == 0 {
		return ""
	}
	return ", uses" + servers(n)
}

func effect(x *operators.Exception) string {
	switch x.Effect {
	case operators.Allow, operators.Deny:
		return x.Effect
	case operators.Amount:
		return fmt.Sprintf("%vx", x.Factor)
	default:
		return text(x.Effect)
	}
}
