package bench

import hdr "github.com/HdrHistogram/hdrhistogram-go"

// Used are the options of a run as it used them, so that a result shows what it
// is of.
type Used struct {
	Options
	WithTLS         bool    `json:"tls"`
	Loop            string  `json:"loop"`             // open or closed
	DurationSeconds float64 `json:"duration_seconds"` // warm-up included
	WarmupSeconds   float64 `json:"warmup_seconds"`
	TimeoutSeconds  float64 `json:"timeout_seconds"` // of a request, 0: never
}

func (o *Options) used() Used {
	u := Used{*o, o.TLS != nil, "closed", o.Duration.Seconds(), o.Warmup.Seconds(), o.Timeout.Seconds()}
	if o.Rate > 0 {
		u.Loop = "open"
	}
	return u
}

// Result is what a run measured. Times are in microseconds.
type Result struct {
	Options Used `json:"options"`

	SentWithWarmup int64 `json:"sent_with_warmup"` // all requests; what follows is without the warm-up

	// Seconds is the interval from the end of the warm-up until nothing more was
	// sent, and Received is how many answers came within it, whichever requests they
	// are to. The rate is of these: what came later was waited for without load.
	Seconds   float64 `json:"seconds"`
	Received  int64   `json:"received"`
	PerSecond float64 `json:"received_per_second"`

	// What became of the requests that were due within the interval, however late.
	Answered  int64            `json:"answered"`
	OK        int64            `json:"ok"`
	OverLimit int64            `json:"over_limit"`
	NoLimit   int64            `json:"no_limit"`         // of OK and OverLimit: no status held a current_limit, as where there is no rule
	Failed    int64            `json:"failed"`           // without an answer, or given up
	Errors    map[string]int64 `json:"errors,omitempty"` // these by their gRPC codes
	LastError string           `json:"last_error,omitempty"`
	Unsent    int64            `json:"unsent,omitempty"` // planned, but all callers waited until the end

	// Latency of all these requests, in an open loop from the time for which the
	// request was planned. One that failed or was given up counts with the time
	// until then, and one that was never sent with that until the end, or a server
	// could hide what is slow by not answering it at all. An answer would have come
	// later still. But a server that refuses at once looks fast: read it beside Failed.
	Latency Latencies `json:"latency_us"`
	// Lateness is how long after its plan a request was sent, or had not been sent at
	// the end. If it is not far below the latency, callers were missing or the client
	// was the slow one.
	Lateness Latencies `json:"lateness_us"`
}

// InWarmup is how many requests were sent in the warm-up.
func (r *Result) InWarmup() int64 { return r.SentWithWarmup - r.Answered - r.Failed }

// Measured is how many requests were measured.
func (r *Result) Measured() int64 { return r.Answered + r.Failed + r.Unsent }

// Latencies sums up a histogram.
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
