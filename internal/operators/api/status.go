package api

import (
	_ "embed"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
)

// Status is how a server is: the answer of GET /status, and as text of GET /. What others
// wrote, such as errors and paths, is shown without control characters.
type Status struct {
	Version       string   `json:"version"`
	UptimeSeconds float64  `json:"uptime_seconds"`
	Health        string   `json:"health"` // "OK", or why the server should get no requests
	Notes         []string `json:"notes"`  // what else an operator should know, such as a switch that was left on
	Store         Store    `json:"store"`
	Rules         Rules    `json:"rules"`
	Exceptions    int      `json:"exceptions"` // in force
	// Decisions and Denials are requests a second, over the last ten seconds.
	Decisions float64 `json:"decisions_per_second"`
	Denials   float64 `json:"denials_per_second"`
}

// Rates is how many requests a second were decided, and how many of them denied, in the
// five seconds before At.
type Rates struct {
	At        time.Time
	Decisions float64
	Denials   float64
}

// Store says what keeps the counters. What is below Works is of Redis, and times that are
// not known are zero.
type Store struct {
	Name         string    `json:"name"` // what it is, and where
	Works        bool      `json:"works"`
	WorkedAt     time.Time `json:"worked_at,omitzero"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	FailedAt     time.Time `json:"failed_at,omitzero"`     // the last call that failed
	Problem      string    `json:"problem,omitempty"`      // of that call: its kind, a colon, and its error
	FailureMode  string    `json:"failure_mode,omitempty"` // of limits that have none of their own
	Breaker      string    `json:"breaker,omitempty"`      // closed, or open: Redis is not asked
}

// Rules says which rules serve, and what became of newer ones.
type Rules struct {
	Path    string `json:"path"` // where they come from
	Rules   int    `json:"rules"`
	Domains int    `json:"domains"`
	Files   int    `json:"files"`             // or resources of a control plane
	Version string `json:"version,omitempty"` // of a control plane
	// ControlPlane says how the control plane is reached, "" if the rules are in files.
	ControlPlane string `json:"control_plane,omitempty"`

	LoadedAt      time.Time `json:"loaded_at,omitzero"`
	FailedAt      time.Time `json:"failed_at,omitzero"` // of the last load, if it failed
	Problems      string    `json:"problems,omitempty"` // of that load, one per line
	FailedVersion string    `json:"failed_version,omitempty"`
}

//go:embed status.txt
var statusText string

var texts = template.Must(template.New("").Funcs(Words).Funcs(template.FuncMap{
	"problems": func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") },
}).Parse(statusText))

// Words are functions of templates that show what a server answers.
var Words = map[string]any{
	"counted": operators.Counted,
	"failure": func(mode string) string { return failures[mode] },
	"line":    func(s string) string { return Short(s, 500) },
	"span":    func(seconds float64) string { return operators.Span(operators.Seconds(seconds)) },
}

// failures say what failure modes mean for requests.
var failures = map[string]string{
	"error": "callers get UNAVAILABLE",
	"allow": "requests pass and are not counted",
	"deny":  "requests are denied",
	"local": "each server counts alone, in memory",
}

// Short returns at most n characters of text of others, which may be long to harm, to be shown.
func Short(s string, n int) string {
	s = plaintext.Line(s[:min(len(s), utf8.UTFMax*n)]) // enough, and cheap to escape
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Text is the page, but for the list of endpoints.
func (s *Status) Text(v operators.Times) string { return s.text("status", v) }

// Text says which rules serve, and what became of newer ones.
func (r *Rules) Text(v operators.Times) string { return (&Status{Rules: *r}).text("rules", v) }

func (s *Status) text(name string, v operators.Times) string {
	var b strings.Builder
	_ = texts.ExecuteTemplate(&b, name, struct { // which fits
		operators.Times
		*Status
	}{v, s})
	return b.String()
}
