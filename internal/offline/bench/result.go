package bench

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Used are the options that a run used. They may differ from the given Options, for example in Callers.
type Used struct {
	Options
	WithTLS         bool    `json:"tls"`
	Loop            string  `json:"loop"`             // open or closed
	DurationSeconds float64 `json:"duration_seconds"` // includes the warm-up
	WarmupSeconds   float64 `json:"warmup_seconds"`
	TimeoutSeconds  float64 `json:"timeout_seconds"` // timeout of a request, or 0 if it has none
}

func (o *Options) used() Used {
	u := Used{*o, o.TLS != nil, "closed", o.Duration.Seconds(), o.Warmup.Seconds(), o.Timeout.Seconds()}
	if o.Rate > 0 {
		u.Loop = "open"
	}
	return u
}

// Result is the outcome of a run. Latencies are in microseconds.
type Result struct {
	Options Used `json:"options"`

	SentWithWarmup int64 `json:"sent_with_warmup"` // requests sent in the whole run, including the warm-up

	// Seconds is the length of the interval from the end of the warm-up until sending
	// stopped. Received is the number of answers in this interval, including answers to requests
	// of the warm-up, and PerSecond is Received divided by Seconds. Received does not count later
	// answers, because the load had ended by then.
	Seconds   float64 `json:"seconds"`
	Received  int64   `json:"received"`
	PerSecond float64 `json:"received_per_second"`

	// The following fields count the requests that were due within the interval, even if
	// the answers came later.
	Answered  int64            `json:"answered"`
	OK        int64            `json:"ok"`
	OverLimit int64            `json:"over_limit"`
	NoLimit   int64            `json:"no_limit"`         // OK and OverLimit answers without a current_limit, for example because no rule applies
	Failed    int64            `json:"failed"`           // requests that failed or timed out
	Errors    map[string]int64 `json:"errors,omitempty"` // failed requests by gRPC code
	LastError string           `json:"last_error,omitempty"`
	Unsent    int64            `json:"unsent,omitempty"` // scheduled requests that found no free caller before the end

	// Latency is the latency of the requests that the fields above count. In an open loop it is
	// measured from the scheduled time. Failed requests count with the time until they failed, and
	// unsent requests with the time until the end. Otherwise a server could hide slow answers
	// by never sending them. A server that refuses immediately looks fast, so read Latency
	// together with Failed.
	Latency Latencies `json:"latency_us"`
	// Lateness is the time from the scheduled time of a request until it was sent, or until
	// the end of the run if it was not sent. If Lateness is not far below Latency, there were too
	// few callers, or the client was the bottleneck.
	Lateness Latencies `json:"lateness_us"`
}

// InWarmup returns the number of requests that were sent in the warm-up.
func (r *Result) InWarmup() int64 { return r.SentWithWarmup - r.Answered - r.Failed }

// Measured returns the number of measured requests, including unsent requests.
func (r *Result) Measured() int64 { return r.Answered + r.Failed + r.Unsent }

//go:embed result.txt
var resultText string

var page = template.Must(template.New("result").Funcs(template.FuncMap{"join": strings.Join, "share": share}).Parse(resultText))

// WriteText writes the result as a table.
func (r *Result) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return cmp.Or(page.Execute(t, r), t.Flush())
}

func share(n, of int64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// Latencies is a summary of a histogram.
type Latencies struct {
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P90  int64   `json:"p90"`
	P99  int64   `json:"p99"`
	P999 int64   `json:"p999"`
	Max  int64   `json:"max"`
}

func latencies(h *hdr.Histogram) Latencies {
	return Latencies{
		Mean: h.Mean(), P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90),
		P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9), Max: h.Max(),
	}
}

// String returns the percentiles, the maximum and the mean as text.
func (l Latencies) String() string {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return fmt.Sprintf("p50 %v  p90 %v  p99 %v  p99.9 %v  max %v  mean %v", us(l.P50), us(l.P90), us(l.P99), us(l.P999), us(l.Max), us(int64(l.Mean)))
}
