package explain

import (
	"bufio"
	"cmp"
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
	if a.Reason != "" {
		a.writeReason(b)
	}
	if a.Rule != "" {
		fmt.Fprintf(b, "rule %s (%s)%s\n", a.Rule, a.Place, a.whyRule())
	}
	if a.Override != "" {
		fmt.Fprintf(b, "  for a limit that the request brings along: %s\n", a.Override)
	}
	switch {
	case a.Rule == "":
		fmt.Fprintln(b, "The descriptor is admitted and not counted.")
	case len(a.Limits) == 0:
		fmt.Fprintln(b, "A whitelist entry, without limits: the descriptor is admitted and not counted.")
	default:
		if a.Limits[0].Above != "" {
			fmt.Fprintln(b, "It has no limits of its own, those of rules above hold.")
		}
		for i := range a.Limits {
			fmt.Fprintln(b)
			a.writeLimit(b, i)
		}
		fmt.Fprintln(b)
		fmt.Fprintf(b, "On fresh counters the request is %s.\n", outcome(a.Denied))
	}
	return b.Flush()
}

// writeReason says why the descriptor ends at no rule.
func (a *Answer) writeReason(w io.Writer) {
	applies := "applies"
	if a.Rule != "" {
		applies = "is for all of it"
	}
	fmt.Fprintf(w, "no rule %s: %s\n", applies, a.Reason)
	a.writeCandidates(w)
	if a.Hidden != "" {
		fmt.Fprintf(w, "  %s, because the search does not go back\n", a.Hidden)
	}
}

// whyRule says why a rule applies that the descriptor does not end at.
func (a *Answer) whyRule() string {
	switch {
	case a.Otherwise:
		return ", for descriptors that no rule is for"
	case a.Reason != "":
		return ", whose limits hold below it"
	default:
		return ""
	}
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
	case "list":
		return "is in the list " + l.Node
	case "network":
		return "is in " + l.Network + " of the networks " + l.Node
	case "wildcard":
		return "matches the wildcard " + l.Node
	case "regex":
		return "matches the regular expression " + l.Node
	case "hold":
		return "names the hold"
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
	if l.Above != "" {
		title += fmt.Sprintf(", from %s (%s), which holds below", l.Above, l.Place)
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
		if l.Charge != "" {
			line("charge", "%s", l.charge(a.OwnHits, a.Hits))
		}
		if l.DenyFor != "" {
			line("deny_for", "%s", l.denyFor())
		}
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
		switch {
		case len(l.shared) == 0:
		case a.Otherwise:
			line("counter", "shared by all descriptors that no rule is for")
		default:
			line("counter", "shared by all values that match %s", strings.Join(l.shared, ", "))
		}
		line("hits", "%d on a fresh counter: %s", a.Hits, d.describe(a.Hits, l))
	}
	_ = t.Flush() // w keeps its error
}

func (l *Limit) algorithm() string {
	switch {
	case l.TimeZone != "":
		return l.Algorithm + ", anchor " + l.Anchor + " of " + l.TimeZone
	case l.Anchor != "":
		return l.Algorithm + ", anchor " + l.Anchor
	case l.Hold != "":
		return fmt.Sprintf("%s, hold %s", l.Algorithm, l.Hold)
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

// denyFor adds to the length of a ban when one begins.
func (l *Limit) denyFor() string {
	if mode := cmp.Or(l.DecidedAs, l.Mode); mode != "enforced" {
		return l.DenyFor + ", but in " + mode + " nobody is banned"
	}
	return l.DenyFor + ", from when somebody goes over"
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
	case l.Hold != "":
		return fmt.Sprintf("free again when it is given back, or after %v", after)
	case l.Burst != nil:
		return fmt.Sprintf("full again after %v", after)
	case l.Anchor == "first_hit":
		return fmt.Sprintf("the window ends after %v", after)
	case l.TimeZone != "":
		return fmt.Sprintf("the window ends with the %s of the calendar", l.Period)
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
