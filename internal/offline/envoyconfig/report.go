package envoyconfig

import (
	_ "embed"
	"io"
	"strconv"
	"text/template"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/explain"
)

// Report says which descriptors Envoy sends for a request, to people and as JSON.
type Report struct {
	Descriptors []Sent `json:"descriptors"`
	Notes       []Note `json:"notes"`
}

// Sent is one descriptor.
type Sent struct {
	Domain       string      `json:"domain"`
	Descriptor   string      `json:"descriptor"` // as explain.ParseDescriptor takes it
	Entries      []SentEntry `json:"entries"`    // none if all actions skipped what was missing
	Place        string      `json:"place"`
	Call         int         `json:"call"`
	OnStreamDone bool        `json:"on_stream_done"`
	HitsAddend   *uint64     `json:"hits_addend,omitempty"`
	NegativeHits bool        `json:"is_negative_hits,omitempty"`
	Explain      string      `json:"explain,omitempty"` // a command
}

// SentEntry is an entry as the log of decisions shows it.
type SentEntry struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	ValueBase64 []byte `json:"value_base64,omitempty"` // if it is no UTF-8
}

// Report returns which descriptors Envoy sends for a request. With command, domain and
// descriptor as arguments behind it, a descriptor is explained.
func (c *Config) Report(r Request, command string) *Report {
	report := &Report{Descriptors: []Sent{}, Notes: append([]Note{}, c.notes...)}
	for _, result := range c.Descriptors(r) {
		report.Descriptors = append(report.Descriptors, newSent(&result, command))
	}
	return report
}

func newSent(r *Result, command string) Sent {
	s := Sent{
		Domain: r.Domain, Descriptor: explain.FormatDescriptor(r.Entries), Place: plaintext.Line(r.Place),
		Call: r.Call, OnStreamDone: r.OnStreamDone, NegativeHits: r.Refund,
	}
	for _, e := range r.Entries {
		entry := SentEntry{Key: e.Key, Value: e.Value}
		if !utf8.ValidString(e.Value) {
			entry.ValueBase64 = []byte(e.Value)
		}
		s.Entries = append(s.Entries, entry)
	}
	hits := ""
	if r.HasHitsAddend {
		s.HitsAddend, hits = &r.HitsAddend, " --hits "+strconv.FormatUint(r.HitsAddend, 10)
	}
	if len(r.Entries) > 0 { // Weir lets any other pass
		s.Explain = command + " " + explain.Quote(explain.FormatDomain(s.Domain)) + " " + explain.Quote(s.Descriptor) + hits
	}
	return s
}

//go:embed report.txt
var reportText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"line": plaintext.Line}).Parse(reportText))

// WriteText writes each descriptor and, below, what else is known of it.
func (r *Report) WriteText(w io.Writer) error { return page.Execute(w, r) }
