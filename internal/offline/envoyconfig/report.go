package envoyconfig

import (
	_ "embed"
	"io"
	"strconv"
	"text/template"

	"weir/internal/descriptors/plaintext"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Report contains the descriptors that Envoy sends for a request, for output as text and as JSON.
type Report struct {
	Descriptors []Sent `json:"descriptors"`
	Notes       []Note `json:"notes"`
}

// Sent is a descriptor that Envoy sends.
type Sent struct {
	Domain       string           `json:"domain"`
	Descriptor   string           `json:"descriptor"` // in the syntax of explain.ParseDescriptor
	Entries      []plan.JSONEntry `json:"entries"`    // null if all values were missing and skipped
	Location     string           `json:"location"`
	Call         int              `json:"call"`
	OnStreamDone bool             `json:"on_stream_done"`
	HitsAddend   *uint64          `json:"hits_addend,omitempty"`
	NegativeHits bool             `json:"is_negative_hits,omitempty"`
	Explain      string           `json:"explain,omitempty"` // command that explains the descriptor
}

// Report returns the descriptors that Envoy sends for a request. command is the beginning
// of a command that explains a descriptor; domain and descriptor are its next arguments.
func (c *Config) Report(r Request, command string) *Report {
	report := &Report{Descriptors: []Sent{}, Notes: append([]Note{}, c.Notes...)}
	for _, d := range c.AppendDescriptors(nil, &r) {
		s := Sent{
			Domain: d.Domain, Descriptor: explain.FormatDescriptor(d.Entries), Location: plaintext.Line(d.Location),
			Call: d.Call, OnStreamDone: d.OnStreamDone, NegativeHits: d.Refund,
		}
		for _, e := range d.Entries {
			s.Entries = append(s.Entries, plan.NewJSONEntry(e.Key, e.Value))
		}
		hits := ""
		if d.HasHitsAddend {
			s.HitsAddend, hits = &d.HitsAddend, " --hits "+strconv.FormatUint(d.HitsAddend, 10)
		}
		if len(d.Entries) > 0 { // Weir admits a descriptor without entries
			s.Explain = command + " " + explain.Quote(explain.FormatDomain(s.Domain)) + " " + explain.Quote(s.Descriptor) + hits
		}
		report.Descriptors = append(report.Descriptors, s)
	}
	return report
}

//go:embed report.txt
var reportText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"line": plaintext.Line}).Parse(reportText))

// WriteText writes the descriptors as text, each with its details below it.
func (r *Report) WriteText(w io.Writer) error { return page.Execute(w, r) }
