package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"

	"go.opentelemetry.io/otel/trace"

	"weir/internal/descriptors/plaintext"
)

// LogRecord is one decision, what a limit meant for a descriptor, as the decision log has it
// in JSON. What is not known, or does not apply, is left out.
type LogRecord struct {
	Time       time.Time `json:"time"`
	Domain     string    `json:"domain,omitempty"`
	Descriptor *Excerpt  `json:"descriptor,omitempty"`
	Rule       string    `json:"rule,omitempty"`      // the keys and values that lead to it
	Place      string    `json:"place,omitempty"`     // where it is written
	Exception  string    `json:"exception,omitempty"` // the ID of the one that applies
	Limit      string    `json:"limit,omitempty"`
	Rate       string    `json:"rate,omitempty"`
	Outcome    string    `json:"outcome,omitempty"`
	Remaining  *int64    `json:"remaining,omitempty"`
	RetryAfter *float64  `json:"retry_after,omitempty"` // of a limit that is over, unless no waiting helps
	RequestID  string    `json:"request_id,omitempty"`  // that Envoy gave the request, if it sent it
	TraceID    string    `json:"trace_id,omitempty"`
	// LeftOut says how many records are missing, instead of all else.
	LeftOut *LeftOut `json:"left_out,omitempty"`

	Trace trace.SpanContext `json:"-"`
}

// LeftOut counts the records that are missing, by reason.
type LeftOut struct {
	Rate   uint64 `json:"rate"`
	Slow   uint64 `json:"slow"`
	Failed uint64 `json:"failed"`
}

// logText bounds what is kept of a descriptor, and logRule what is shown of the texts of a
// rule, in bytes.
const (
	logText = 1024
	logRule = 256
)

// JSON returns the record on one line, without anything that a terminal obeys.
func (r *LogRecord) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // which has nothing that JSON has not
	return plaintext.JSON(b.Bytes())
}

// Lines writes each record as a line of JSON.
type Lines struct{ W io.Writer }

// Write implements LogSink. It does not end with its context if the writer hangs.
func (l Lines) Write(_ context.Context, batch []LogRecord) error {
	var text []byte
	for i := range batch {
		text = append(text, batch[i].JSON()...)
	}
	_, err := l.W.Write(text)
	return err
}

// Close implements LogSink.
func (Lines) Close(context.Context) error { return nil }
