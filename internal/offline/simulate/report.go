package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Report is the result of a replay. Its strings are plain text without control characters.
type Report struct {
	// Warnings are problems that may make the report worthless.
	Warnings []string `json:"warnings,omitempty"`

	First time.Time `json:"first,omitzero"` // time of the first request with a limit
	Last  time.Time `json:"last,omitzero"`
	Counts
	Late     int64         `json:"late"` // requests that came too late to be sorted by time
	Requests uint64        `json:"requests"`
	Denied   uint64        `json:"denied"`
	Limits   []LimitReport `json:"limits"`
	// Compared compares the rules with the old rules. It is nil without old rules.
	Compared *Comparison `json:"compared,omitempty"`
	Notes    []string    `json:"notes,omitempty"`

	Shares    []float64 `json:"-"` // shares of denied clients for which amounts are suggested
	cut       []error   // errors of logs that cannot be read to their end
	firstLate string    // location of the first late line
}

// Counts counts lines of logs.
type Counts struct {
	Lines int64 `json:"lines"`
	// Unreadable counts lines that cannot be parsed. WrongLines are the first of them.
	Unreadable int64       `json:"unreadable"`
	WrongLines []WrongLine `json:"unreadable_lines,omitempty"`
	// Idle counts lines whose request has no limit.
	Idle int64 `json:"without_limits"`
	// Refused counts requests that a server would refuse. Refusal is the error of the first.
	Refused int64  `json:"refused"`
	Refusal string `json:"refusal,omitempty"`

	endless   int64 // lines without a duration
	noRequest int64 // idle lines that are not about a request
}

func (c *Counts) add(o *Counts) {
	c.Lines += o.Lines
	c.Unreadable += o.Unreadable
	c.WrongLines = append(c.WrongLines, o.WrongLines[:min(len(o.WrongLines), maxShown-len(c.WrongLines))]...)
	c.Idle += o.Idle
	c.Refused += o.Refused
	c.Refusal = cmp.Or(c.Refusal, o.Refusal)
	c.endless += o.endless
	c.noRequest += o.noRequest
}

// WrongLine is a line that cannot be parsed.
type WrongLine struct {
	Log  string `json:"log"`
	Line int64  `json:"line"`
	Why  string `json:"why"`
	Text string `json:"text"` // beginning of the line
}

// String returns the location of the line, the reason and the text.
func (w WrongLine) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", w.Log, w.Line, w.Why, w.Text)
}

// LimitReport is the report on one limit. If the limit is in shadow mode, a request that exceeds
// the limit counts as denied.
type LimitReport struct {
	Rule      string `json:"rule"`
	Location  string `json:"location"`
	Name      string `json:"name,omitempty"`
	Limit     string `json:"limit"` // such as 10 per minute
	Algorithm string `json:"algorithm"`
	Shadow    bool   `json:"shadow,omitempty"`
	Requests  uint64 `json:"requests"`
	Denied    uint64 `json:"denied"`
	// Clients is the number of the limit's counters, one for each combination of entry values.
	Clients       uint64        `json:"clients"`
	ClientsDenied uint64        `json:"clients_denied"` // at least once
	Share         float64       `json:"clients_denied_share"`
	WorstMinute   *Minute       `json:"worst_minute,omitempty"`
	WorstClients  []Client      `json:"worst_clients,omitempty"`
	Amounts       []Amount      `json:"amounts,omitempty"`
	Curve         []Point       `json:"curve,omitempty"` // only if amounts are suggested
	Today         uint64        `json:"-"`               // amount in the rules
	Series        *SeriesReport `json:"series,omitempty"`
}

// Minute is one minute of a limit.
type Minute struct {
	At time.Time `json:"at"`
	count
}

// Client is a client that was denied. Up to Uncertain of its denials may belong to other clients.
type Client struct {
	Client    string `json:"client"`
	Denied    uint64 `json:"denied"`
	Uncertain uint64 `json:"uncertain,omitempty"`
}

// Amount is the smallest amount at which at most Share of the clients would have been denied at
// least once if there were no other limits.
type Amount struct {
	Share  float64 `json:"clients_denied_share"`
	Amount uint64  `json:"amount"`
	Burst  uint64  `json:"burst,omitempty"` // only for a token bucket with a burst
}

// SeriesReport counts the requests of a limit in spans of equal length.
type SeriesReport struct {
	Begin    time.Time `json:"begin"`
	Width    int64     `json:"width_seconds"`
	Requests []uint64  `json:"requests"`
	Denied   []uint64  `json:"denied"`
}

// Comparison contains the differences between the decisions of two sets of rules.
type Comparison struct {
	DeniedBefore uint64     `json:"denied_before"` // requests that the old rules deny
	NowOnly      Difference `json:"denied_now_only"`
	BeforeOnly   Difference `json:"denied_before_only"`
}

// Difference counts the requests that one set of rules denies and the other admits. ClientsOnly counts the
// clients among Clients that the other rules never deny.
type Difference struct {
	Requests     uint64   `json:"requests"`
	Clients      uint64   `json:"clients"`
	ClientsOnly  uint64   `json:"clients_only"`
	WorstClients []Client `json:"worst_clients,omitempty"`
	By, Others   string   `json:"-"` // names of the rules that deny, and of the rules that admit
}

// shownClients is the maximum number of clients in WorstClients.
const shownClients = 10

// Err returns the errors of the logs that could not be read to their end, or nil. Warnings contains the same errors.
func (r *Report) Err() error { return errors.Join(r.cut...) }

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, plaintext.Line(fmt.Sprintf(format, args...)))
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, plaintext.Line(fmt.Sprintf(format, args...)))
}

// finish completes the report after the last request.
func (r *run) finish() {
	p := r.report
	names, domains := map[string]bool{}, map[string]bool{}
	for _, s := range r.sources {
		maps.Copy(names, s.names)
		maps.Copy(domains, s.domains)
		if s.failed != nil {
			err := fmt.Errorf("%w; the rest of the log is not in this report", s.failed)
			p.warn("%v", err)
			p.cut = append(p.cut, err)
		}
	}
	for _, note := range plan.SwitchedOn(r.Plan.ShadowMode, r.Plan.QuotaMode) {
		p.warn("%s", note)
	}
	if !p.First.IsZero() {
		p.Last = time.UnixMicro(r.clock).UTC()
	}
	p.Requests, p.Denied = r.engine.requests, r.engine.denied
	for _, c := range r.engine.limits {
		p.Limits = append(p.Limits, c.report(r.Options))
		if c.limit.Algorithm == limiter.Concurrency && c.Requests > 0 && p.endless > 0 {
			p.note("%s: %d lines have no duration, their requests count as finished at once", ruleName(c), p.endless)
		}
	}
	if p.Late > 0 {
		say := p.note
		if 10*p.Late > p.Lines {
			say = p.warn
		}
		say("%s lines are more than a minute late, and were decided when they came, the first at %s", plaintext.Number(p.Late), p.firstLate)
	}
	if p.noRequest > 0 {
		p.note("%s lines are not requests that Envoy's filters see, such as those without a path; no limit applies to them", plaintext.Number(p.noRequest))
	}
	engines := []*engine{r.engine}
	if r.old != nil {
		p.Compared = &Comparison{DeniedBefore: r.old.denied, NowOnly: r.nowOnly.report("new", "old"), BeforeOnly: r.wereOnly.report("old", "new")}
		engines = append(engines, r.old)
	}
	for _, e := range engines {
		if !slices.ContainsFunc(e.limits, func(c *limitStats) bool { return len(c.table.states) > 0 }) {
			p.warn("no request matches a limit of %s", e.name)
		}
		for _, domain := range slices.Sorted(maps.Keys(domains)) {
			if !e.tree.HasDomain(domain) {
				p.warn("Envoy sends the domain %q, which %s do not have", domain, e.name)
			}
		}
	}
	for _, name := range r.Envoy.Needs {
		if !names[name] && name != "x-envoy-internal" {
			p.warn("Envoy's configuration uses %s, but no line has it; of JSON lines, --fields says where it is", strings.TrimPrefix(name, ":"))
		}
	}
}

func (c *limitStats) report(o *Options) LimitReport {
	p := c.LimitReport
	p.Rule, p.Location, p.Name = ruleName(c), plaintext.Line(c.rule.Location()), plaintext.Line(c.limit.Name)
	p.Limit, p.Algorithm, p.Shadow = c.limit.Rate(), c.limit.Algorithm.String(), o.Plan.DecidingMode(c.limit) == limiter.Shadow
	p.Today = c.limit.RequestsPerUnit
	p.Clients, p.ClientsDenied = uint64(len(c.table.states)), uint64(len(c.table.denied))
	p.Share = float64(p.ClientsDenied) / float64(max(p.Clients, 1))
	p.WorstClients = c.worst.top(shownClients)
	if p.Requests > 0 {
		p.WorstMinute, p.Series = c.series.report()
	}
	if len(o.Shares) == 0 || p.Clients == 0 {
		return p
	}
	needs := c.table.needs()
	for _, share := range o.Shares {
		a := Amount{Share: share, Amount: suggest(needs, share)}
		if c.limit.Burst > 0 {
			a.Burst = uint64(math.Ceil(float64(a.Amount) * burstRatio(c.limit)))
		}
		p.Amounts = append(p.Amounts, a)
	}
	p.Curve = c.curve(needs, p.Amounts)
	return p
}

// ruleName returns the path of the limit's rule.
func ruleName(c *limitStats) string { return plaintext.Line(c.rule.String()) }

// clientName returns the entries of a counter's key as text, see limiter.Keys. Long values
// are replaced by digests.
func clientName(key []byte) string {
	parts := strings.Split(string(key), "|")
	if len(parts) > 3 { // otherwise the entries are one digest
		parts = parts[2 : len(parts)-1]
	} else {
		parts = parts[1:]
	}
	for i, p := range parts {
		if value, err := url.PathUnescape(p); err == nil {
			p = value
		}
		parts[i] = plaintext.Line(p)
	}
	return strings.Join(parts, ", ")
}
