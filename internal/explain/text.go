package explain

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// maxCandidates are shown to people of what might have been meant.
const maxCandidates = 20

// WriteText writes the answer for people to read.
func (a *Answer) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "domain %s\n", a.Domain)
	a.writeLevels(b)
	switch {
	case a.Rule == "":
		fmt.Fprintf(b, "no rule applies: %s\n", a.Reason)
		a.writeCandidates(b)
		if a.Hidden != "" {
			fmt.Fprintf(b, "  %s, because the search does not go back\n", a.Hidden)
		}
		fmt.Fprintln(b, "The descriptor is admitted and not counted.")
	case len(a.Limits) == 0:
		fmt.Fprintf(b, "rule %s (%s)\n", a.Rule, a.Place)
		fmt.Fprintln(b, "A whitelist entry, without limits: the descriptor is admitted and not counted.")
	default:
		fmt.Fprintf(b, "rule %s (%s)\n", a.Rule, a.Place)
		for i := range a.Limits {
			fmt.Fprintln(b)
			a.writeLimit(b, i)
		}
		fmt.Fprintln(b)
		fmt.Fprintf(b, "On fresh counters the request is %s.\n", outcome(a.Denied))
	}
	return b.Flush()
}

func (a *Answer) writeLevels(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range a.Levels {
		fmt.Fprintf(t, "  %s\t%s\n", l.Entry, l.describe())
	}
	for _, e := range a.Descriptor[len(a.Levels):] {
		fmt.Fprintf(t, "  %s\tnot looked at\n", e)
	}
	_ = t.Flush() // w keeps its error
}

func (l *Level) describe() string {
	switch l.Match {
	case "value":
		return "matches " + l.Node + " exactly"
	case "wildcard":
		return "matches the wildcard " + l.Node
	case "key":
		return "matches " + l.Node + " with any value"
	default:
		return "matches nothing"
	}
}

func (a *Answer) writeCandidates(w io.Writer) {
	if len(a.Candidates) == 0 {
		fmt.Fprintln(w, "  there is nothing else")
		return
	}
	shown, more := a.Candidates, ""
	if n := len(shown) - maxCandidates; n > 0 {
		shown, more = shown[:maxCandidates], fmt.Sprintf(" and %d more", n)
	}
	fmt.Fprintf(w, "  there are: %s%s\n", strings.Join(shown, ", "), more)
}

func (a *Answer) writeLimit(w io.Writer, i int) {
	l := &a.Limits[i]
	title := fmt.Sprintf("limit %d of %d", i+1, len(a.Limits))
	if l.Name != "" {
		title += ": " + l.Name
	}
	fmt.Fprintln(w, title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(field, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t"+format+"\n", append([]any{field}, args...)...)
	}
	if l.Unlimited {
		line("amount", "unlimited, admitted and not counted")
	} else {
		line("amount", "%s", l.rate)
		line("algorithm", "%s", l.algorithm())
		line("mode", "%s", l.mode())
		line("charge", "%s", l.charge(a.OwnHits, a.Hits))
		line("failure", "%s", l.failure())
	}
	if len(l.Replaces) > 0 {
		line("replaces", "%s", strings.Join(l.Replaces, ", "))
	}
	if len(l.ReplacedBy) > 0 {
		line("replaced", "by %s, not counted", strings.Join(l.ReplacedBy, ", "))
	}
	if d := l.Decision; d != nil {
		if l.Key != "" {
			line("key", "%s", l.Key)
		}
		if l.Slot != nil {
			line("slot", "%d", *l.Slot)
		}
		if len(a.Shared) > 0 {
			line("counter", "shared by all values that match %s", strings.Join(a.Shared, ", "))
		}
		line("hits", "%d on a fresh counter: %s", a.Hits, d.describe(a.Hits, l))
	}
	_ = t.Flush() // w keeps its error
}

func (l *Limit) algorithm() string {
	switch {
	case l.Anchor != "":
		return l.Algorithm + ", anchor " + l.Anchor
	case l.Burst != nil:
		return fmt.Sprintf("%s, burst %d", l.Algorithm, *l.Burst)
	default:
		return l.Algorithm
	}
}

// mode adds to the mode what a switch of the server makes of it.
func (l *Limit) mode() string {
	if l.Switch == "" {
		return l.Mode
	}
	return fmt.Sprintf("%s, decided as %s because %s is on", l.Mode, l.DecidedAs, l.Switch)
}

// charge adds to the charge what becomes of a denied hit, whose descriptor may have
// its own hits_addend.
func (l *Limit) charge(own bool, hits uint64) string {
	switch {
	case l.Charge == "admitted":
		return "admitted, so what is denied is not counted"
	case l.Charge == "always" && own && hits == 0:
		return "always, so a peek passes until more than the amount is used"
	case l.Charge == "always":
		return "always, so what is denied is counted all the same"
	case own && hits == 0:
		return "auto, but a peek counts nothing, admitted or denied"
	case own:
		return "auto, so what is denied is counted all the same, because its descriptor has its own hits_addend"
	default:
		return "auto, so what is denied is counted only if its descriptor has its own hits_addend other than 0"
	}
}

// failure adds to the failure mode what it does while the store fails.
func (l *Limit) failure() string {
	switch l.FailureMode {
	case "allow":
		return "allow, so without Redis it admits, uncounted"
	case "deny":
		return "deny, so without Redis it is over"
	case "local":
		return "local, so without Redis each replica counts for itself"
	default:
		return "error, so without Redis the request is answered UNAVAILABLE"
	}
}

func (d *Decision) describe(hits uint64, l *Limit) string {
	switch {
	case !d.Fits && (l.Mode == "shadow_mode" || l.DecidedAs == "shadow_mode"):
		return "more than ever fits, but the mode lets it pass"
	case !d.Fits && d.Charged:
		return "more than ever fits, but counted all the same, " + d.reset(l)
	case !d.Fits:
		return "more than ever fits"
	case hits == 0:
		return fmt.Sprintf("a peek, %d remaining", d.Remaining)
	case !d.Charged:
		return "fits, but is not counted, because another limit denies the request"
	default:
		return fmt.Sprintf("fits, %d remaining, %s", d.Remaining, d.reset(l))
	}
}

// reset words when nothing of the hits counts any more: within the time that it
// takes from the start of a window, if the hits may come later in it.
func (d *Decision) reset(l *Limit) string {
	after := time.Duration(d.ResetAfter * float64(time.Second))
	switch {
	case l.Burst != nil:
		return fmt.Sprintf("full again after %v", after)
	case l.Anchor == "first_hit":
		return fmt.Sprintf("the window ends after %v", after)
	case l.Anchor != "":
		return fmt.Sprintf("the window ends within %v", after)
	default:
		return fmt.Sprintf("all free again within %v", after)
	}
}

func outcome(denied bool) string {
	if denied {
		return "denied"
	}
	return "admitted"
}
