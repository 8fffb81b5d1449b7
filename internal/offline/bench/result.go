package bench

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Used are the options of a run as it used them, so that a result shows what it
// is of.
type Used struct {
	Servers     []string `json:"servers"`
	TLS         bool     `json:"tls"`
	Loop        string   `json:"loop"` // open or closed
	Connections int      `json:"connections"`
	Callers     int      `json:"callers"`
	Rate        float64  `json:"rate"` // planned requests per second of an open loop, 0 of a closed one

	DurationSeconds float64 `json:"duration_seconds"` // warm-up included
	WarmupSeconds   float64 `json:"warmup_seconds"`
	Requests        int64   `json:"requests"`        // at most, 0: no bound
	TimeoutSeconds  float64 `json:"timeout_seconds"` // of a request, 0: never

	Traffic
}

func (o *Options) used() Used {
	u := Used{
		Servers: o.Servers, TLS: o.TLS != nil, Loop: "closed", Connections: o.Connections, Callers: o.Callers, Rate: o.Rate,
		DurationSeconds: o.Duration.Seconds(), WarmupSeconds: o.Warmup.Seconds(), Requests: o.Requests, TimeoutSeconds: o.Timeout.Seconds(),
		Traffic: o.Traffic,
	}
	if o.Rate > 0 {
		u.Loop = "open"
	}
	if u.Distribution != Zipf {
		u.Exponent = 0
	}
	return u
}

// Result is what a run measured. Times are in microseconds.
type Result struct {
	Options Used `json:"options"`

	SentWithWarmup int64 `json:"sent_with_warmup"` // all requests; what follows is without the warm-up

	// Seconds is the interval from the end of the warm-up until nothing more was
	// sent, and Received is how many answers came within it, whichever requests they
	// are to. The rate and the CPU times are of these: what came later was waited
	// for without load.
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
	// The histogram holds Answered, Failed and Unsent together.
	Latency Latencies `json:"latency_us"`
	// Lateness is how long after its plan a request was sent, or had not been sent at
	// the end. If it is not far below the latency, callers were missing or the client
	// was the slow one.
	Lateness Latencies `json:"lateness_us"`

	Processes []Process `json:"processes,omitempty"`
}

// Measured is how many requests were measured.
func (r *Result) Measured() int64 { return r.Answered + r.Failed + r.Unsent }

// Latencies sums up a histogram.
type Latencies struct {
	Mean    float64  `json:"mean"`
	P50     int64    `json:"p50"`
	P90     int64    `json:"p90"`
	P99     int64    `json:"p99"`
	P999    int64    `json:"p999"`
	Max     int64    `json:"max"`
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket is a part of a histogram.
type Bucket struct {
	UpTo  int64 `json:"up_to"` // and above the bucket before
	Count int64 `json:"count"`
}

// Process is what a local process used within the interval, to 10 ms of CPU time,
// as /proc reports it.
type Process struct {
	PID           int     `json:"pid"`
	Name          string  `json:"name"`
	Load          bool    `json:"load,omitempty"` // this is the load generator itself
	CPUPerRequest float64 `json:"cpu_us_per_answer"`
	Cores         float64 `json:"cores"`
	ResidentBytes int64   `json:"resident_bytes"`
}

// newHistogram tells latencies apart by three digits, from a microsecond to longest.
func newHistogram(longest time.Duration) *hdr.Histogram { return hdr.New(1, longest.Microseconds(), 3) }

func record(h *hdr.Histogram, d time.Duration) {
	_ = h.RecordValue(min(d.Microseconds(), h.HighestTrackableValue())) // it is in range
}

func latencies(h *hdr.Histogram) Latencies {
	l := Latencies{
		Mean: h.Mean(), P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90),
		P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9), Max: h.Max(),
	}
	for _, bar := range h.Distribution() {
		up := roundUp(bar.From) // within three digits
		if n := len(l.Buckets); n > 0 && l.Buckets[n-1].UpTo == up {
			l.Buckets[n-1].Count += bar.Count
		} else if bar.Count > 0 {
			l.Buckets = append(l.Buckets, Bucket{up, bar.Count})
		}
	}
	return l
}

// roundUp is the next of 1, 1.5, 2, 3, 5, 7 and 10 times a power of ten: steps
// that look even on a logarithmic scale.
func roundUp(us int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, step := range []int64{10, 15, 20, 30, 50, 70} {
			if up := step * power / 10; us <= up {
				return up
			}
		}
	}
}
