package decisionlog

import (
	"bytes"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/trace"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/operators/excerpt"
)

// Record is one decision: what a limit meant for a descriptor. It holds nothing of the
// request but what is kept of its descriptor.
type Record struct {
	Time       time.Time
	Descriptor []byte // as of excerpt
	Rule       string // the keys and values that lead to it, "" for none
	Place      string // where it is written, "" for none
	Exception  string // the ID of the one that applies, "" for none
	Outcome    string
	// The rest is void where no limit was counted.
	Limit      *limiter.Limit // nil: none
	Remaining  int64
	RetryAfter time.Duration // 0 if the limit was not over, or limiter.Never
	Trace      trace.SpanContext

	// LeftOut says how many records are missing, instead of all else.
	LeftOut *LeftOut
}

// LeftOut counts the records that are missing, by reason.
type LeftOut struct {
	Rate   uint64 `json:"rate"`
	Slow   uint64 `json:"slow"`
	Failed uint64 `json:"failed"`
}

// TextSize bounds what is kept of a descriptor, and maxRule what is shown of the texts of
// a rule.
const (
	TextSize = 1024
	maxRule  = 256
)

// line is a Record as JSON.
type line struct {
	Time       time.Time           `json:"time"`
	Domain     string              `json:"domain,omitempty"`
	Descriptor *excerpt.Descriptor `json:"descriptor,omitempty"`
	Rule       string              `json:"rule,omitempty"`
	Place      string              `json:"place,omitempty"`
	Exception  string              `json:"exception,omitempty"`
	Limit      string              `json:"limit,omitempty"`
	Rate       string              `json:"rate,omitempty"`
	Outcome    string              `json:"outcome,omitempty"`
	Remaining  *int64              `json:"remaining,omitempty"`
	RetryAfter *float64            `json:"retry_after,omitempty"`
	TraceID    string              `json:"trace_id,omitempty"`
	LeftOut    *LeftOut            `json:"left_out,omitempty"`
}

// fields returns what JSON shows of r.
func (r *Record) fields() line {
	if r.LeftOut != nil {
		return line{Time: r.Time.UTC(), LeftOut: r.LeftOut}
	}
	d := excerpt.Read(r.Descriptor)
	l := line{
		Time: r.Time.UTC(), Domain: d.Domain, Descriptor: &d, Outcome: r.Outcome,
		Rule: excerpt.Begin(r.Rule, maxRule), Place: excerpt.Begin(r.Place, maxRule), Exception: r.Exception,
	}
	if r.Limit != nil {
		l.Limit, l.Rate = excerpt.Begin(r.Limit.Series.Labels().Limit, maxRule), r.Limit.Rate()
		l.Remaining = &r.Remaining
		if r.RetryAfter > 0 {
			l.RetryAfter = new(r.RetryAfter.Seconds())
		}
	}
	if r.Trace.HasTraceID() {
		l.TraceID = r.Trace.TraceID().String()
	}
	return l
}

// JSON returns the record on one line, without anything that a terminal obeys.
func (l line) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(l) // which has nothing that JSON has not
	return plaintext.JSON(b.Bytes())
}
