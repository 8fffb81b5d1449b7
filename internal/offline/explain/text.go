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
		why := ""
		if a.Keyless {
			why = ", where no other rule of its level matches"
		} else if a.Reason != "" {
			why = ", whose limits hold below it"
		}
		fmt.Fprintf(b, "rule %s (%s)%s\n", a.Rule, a.Place, why)
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
		outcome := "admitted"
		if a.Denied {
			outcome = "denied"
		}
		fmt.Fprintf(b, "\nOn fresh counters the request is %s.\n", outcome)
	}
	return b.Flush()
}

// matchTexts say how an entry leads to a NODE, by Level.Match.
var matchTexts = map[string]string{
	"none":     "matches nothing",
	"value":    "matches NODE exactly",
	"list":     "is in the list NODE",
	"network":  "is in NETWORK of the networks NODE",
	"wildcard": "matches the wildcard NODE",
	"regex":    "matches the regular expression NODE",
	"key":      "matches NODE with any value",
	"hold":     "names the hold",
}

func (a *Answer) writeLevels(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range a.Levels {
		fmt.Fprintf(t, "  %s\t%s\n", l.Entry, strings.NewReplacer("NODE", l.Node, "NETWORK", l.Network).Replace(matchTexts[l.Match]))
	}
	for _, e := range a.Descriptor[len(a.Levels):] {
		fmt.Fprintf(t, "  %s\tnot looked at\n", e)
	}
	_ = t.Flush() // w keeps its error
}

// writeReason says why the descriptor ends at no rule, and what is there instead.
func (a *Answer) writeReason(w io.Writer) {
	applies := "applies"
	if a.Rule != "" {
		applies = "is for all of it"
	}
	fmt.Fprintf(w, "no rule %s: %s\n", applies, a.Reason)
	switch more := len(a.Candidates) - maxCandidates; {
	case len(a.Candidates) == 0:
		fmt.Fprintln(w, "  there is nothing else")
	case more > 0:
		fmt.Fprintf(w, "  there are: %s and %d more\n", strings.Join(a.Candidates[:maxCandidates], ", "), more)
	default:
		fmt.Fprintf(w, "  there are: %s\n", strings.Join(a.Candidates, ", "))
	}
	if a.Hidden != "" {
		fmt.Fprintf(w, "  %s, because the search does not go back\n", a.Hidden)
	}
}

// failureTexts say what a failure mode does while the store fails.
var failureTexts = map[string]string{
	"allow": "allow, so without Redis it admits, uncounted",
	"deny":  "deny, so without Redis it is over",
	"local": "local, so without Redis each replica counts for itself",
	"error": "error, so without Redis the request is answered UNAVAILABLE",
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
	line := func(field, text string) { // "" is not written
		if text != "" {
			fmt.Fprintf(t, "  %s\t%s\n", field, text)
		}
	}
	if l.Unlimited {
		line("amount", "unlimited, admitted and not counted")
	} else {
		line("amount", l.rate)
		line("algorithm", l.algorithm())
		line("mode", l.mode())
		line("charge", l.charge(a.OwnHits, a.Hits))
		line("deny_for", l.denyFor())
		line("failure", failureTexts[l.FailureMode])
	}
	line("replaces", strings.Join(l.Replaces, ", "))
	if len(l.ReplacedBy) > 0 {
		line("replaced", fmt.Sprintf("by %s, not counted", strings.Join(l.ReplacedBy, ", ")))
	}
	if d := l.Decision; d != nil {
		line("key", l.Key)
		if l.Slot != nil {
			line("slot", fmt.Sprint(*l.Slot))
		}
		if len(l.shared) > 0 && a.Keyless {
			line("counter", "shared by all descriptors that no other rule of its level matches")
		} else if len(l.shared) > 0 {
			line("counter", "shared by all values that match "+strings.Join(l.shared, ", "))
		}
		line("hits", fmt.Sprintf("%d on a fresh counter: %s", a.Hits, d.describe(a.Hits, l)))
	}
	_ = t.Flush() // w keeps its error
}

func (l *Limit) algorithm() string {
	switch {
	case l.TimeZone != "":
		return l.Algorithm + " of " + l.TimeZone
	case l.Hold != "":
		return l.Algorithm + ", hold " + l.Hold
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
	peek := own && hits == 0
	switch {
	case l.Charge == "":
		return ""
	case l.Charge == "admitted":
		return "admitted, so what is denied is not counted"
	case l.Charge == "always" && peek:
		return "always, so a peek passes until more than the amount is used"
	case l.Charge == "always":
		return "always, so what is denied is counted all the same"
	case peek:
		return "auto, but a peek counts nothing, admitted or denied"
	case own:
		return "auto, so what is denied is counted all the same, because its descriptor has its own hits_addend"
	default:
		return "auto, so what is denied is counted only if its descriptor has its own hits_addend other than 0"
	}
}

// denyFor adds to the length of a ban when one begins.
func (l *Limit) denyFor() string {
	switch mode := cmp.Or(l.DecidedAs, l.Mode); {
	case l.DenyFor == "":
		return ""
	case mode != "enforced":
		return l.DenyFor + ", but in " + mode + " nobody is banned"
	default:
		return l.DenyFor + ", from when somebody goes over"
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
	case l.Algorithm == "first_hit":
		return fmt.Sprintf("the window ends after %v", after)
	case l.TimeZone != "":
		return fmt.Sprintf("the window ends with the %s of the calendar", l.Period)
	case l.Algorithm == "fixed_window":
		return fmt.Sprintf("the window ends within %v", after)
	default:
		return fmt.Sprintf("all free again within %v", after)
	}
}
