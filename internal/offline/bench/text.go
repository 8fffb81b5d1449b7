package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the result as a table.
func (r *Result) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }

	r.Options.write(row)
	loop := "closed loop"
	if r.Options.Loop == "open" {
		loop = fmt.Sprintf("open loop at %.6g/s", r.Options.Rate)
	}
	connections := "connections"
	if r.Options.TLS {
		connections += " with TLS"
	}
	row("load", "%s, %d callers, %d %s, %.1f s measured", loop, r.Options.Callers, r.Options.Connections, connections, r.Seconds)
	row("sent", "%d%s", r.SentWithWarmup, r.warmup())
	row("answered", "%d  %.0f/s while sending", r.Answered, r.PerSecond)
	row("ok", "%d  %s", r.OK, share(r.OK, r.Answered))
	row("over limit", "%d  %s", r.OverLimit, share(r.OverLimit, r.Answered))
	if r.NoLimit > 0 {
		row("no limit", "%d  %s", r.NoLimit, share(r.NoLimit, r.Answered))
	}
	if r.NoLimit > 0 && r.NoLimit == r.Answered {
		row("", "none of the answers carried a limit: does the server have rules for the domain %q and these descriptors?", r.Options.Domain)
	}
	row("failed", "%d%s", r.Failed, r.failures())
	if r.Unsent > 0 {
		row("never sent", "%d, all callers were waiting", r.Unsent)
	}
	row("latency", "%s", r.Latency)
	if r.Failed+r.Unsent > 0 {
		row("", "what failed or was never sent is in it, with the time that it waited")
	}
	if r.Options.Loop == "open" {
		row("sent late", "%s", r.Lateness)
	}
	return t.Flush()
}

// write writes who was asked, and for what.
func (u *Used) write(row func(name, format string, args ...any)) {
	row("target", "%s", strings.Join(u.Servers, ", "))
	row("domain", "%s", u.Domain)
	for _, entries := range u.Descriptors {
		row("descriptor", "%s", spell(entries))
	}
	distribution, hits := string(u.Distribution), "no hits_addend"
	if u.Distribution == Zipf {
		distribution += fmt.Sprintf(" with exponent %g", u.Exponent)
	}
	if u.Hits > 0 {
		hits = fmt.Sprintf("hits_addend %d", u.Hits)
	}
	row("traffic", "%d keys, %s, %s", u.Keys, distribution, hits)
}

// spell writes a descriptor as it is written in the command.
func spell(entries []Entry) string {
	key, value := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `=`, `\=`), strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	var texts []string
	for _, e := range entries {
		texts = append(texts, key.Replace(e.Key)+"="+value.Replace(e.Value))
	}
	return strings.Join(texts, ",")
}

// warmup returns how many requests belong to the warm-up, if there was one: all but
// those whose outcome the result counts.
func (r *Result) warmup() string {
	if r.Options.WarmupSeconds == 0 {
		return ""
	}
	return fmt.Sprintf("  %d of them in the warm-up of %g s, which is not in what follows", r.SentWithWarmup-r.Answered-r.Failed, r.Options.WarmupSeconds)
}

func share(n, of int64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// failures names the errors, most frequent first.
func (r *Result) failures() string {
	codes := slices.SortedFunc(maps.Keys(r.Errors), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Errors[b], r.Errors[a]), cmp.Compare(a, b))
	})
	var text strings.Builder
	for _, code := range codes {
		fmt.Fprintf(&text, "  %s %d", code, r.Errors[code])
	}
	if r.LastError != "" {
		fmt.Fprintf(&text, "  last: %s", r.LastError)
	}
	return text.String()
}

// String returns the usual percentiles.
func (l Latencies) String() string {
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  p99.9 %s  max %s  mean %s",
		short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max), short(int64(l.Mean)))
}

// short writes microseconds with three digits.
func short(us int64) string {
	switch d := time.Duration(us) * time.Microsecond; {
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", us)
	case d < time.Second:
		return fmt.Sprintf("%.3gms", float64(us)/1e3)
	default:
		return fmt.Sprintf("%.3gs", d.Seconds())
	}
}
