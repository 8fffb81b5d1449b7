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

	u := &r.Options
	row("target", "%s", strings.Join(u.Servers, ", "))
	row("domain", "%s", u.Domain)
	for _, d := range u.Descriptors {
		row("descriptor", "%s", spell(d))
	}
	row("traffic", "%d keys, hits_addend %d", u.Keys, u.Hits)
	loop := "closed loop"
	if u.Loop == "open" {
		loop = fmt.Sprintf("open loop at %.6g/s", u.Rate)
	}
	connections := "connections"
	if u.TLS {
		connections += " with TLS"
	}
	row("load", "%s, %d callers, %d %s, %.1f s measured", loop, u.Callers, u.Connections, connections, r.Seconds)
	warmup := ""
	if u.WarmupSeconds > 0 {
		warmup = fmt.Sprintf("  %d of them in the warm-up of %g s, which is not measured", r.SentWithWarmup-r.Answered-r.Failed, u.WarmupSeconds)
	}
	row("sent", "%d%s", r.SentWithWarmup, warmup)
	row("answered", "%d  %.0f/s while sending", r.Answered, r.PerSecond)
	row("ok", "%d  %s", r.OK, share(r.OK, r.Answered))
	row("over limit", "%d  %s", r.OverLimit, share(r.OverLimit, r.Answered))
	if r.NoLimit > 0 {
		row("no limit", "%d  %s", r.NoLimit, share(r.NoLimit, r.Answered))
	}
	if r.NoLimit > 0 && r.NoLimit == r.Answered {
		row("", "none of the answers carried a limit: does the server have rules for the domain %q and these descriptors?", u.Domain)
	}
	row("failed", "%d%s", r.Failed, r.failures())
	if r.Unsent > 0 {
		row("never sent", "%d, all callers were busy", r.Unsent)
	}
	row("latency", "%s", r.Latency)
	if r.Failed+r.Unsent > 0 {
		row("", "includes failed and unsent requests, with the time they waited")
	}
	if u.Loop == "open" {
		row("sent late", "%s", r.Lateness)
	}
	return t.Flush()
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
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return fmt.Sprintf("p50 %v  p90 %v  p99 %v  p99.9 %v  max %v  mean %v", us(l.P50), us(l.P90), us(l.P99), us(l.P999), us(l.Max), us(int64(l.Mean)))
}
