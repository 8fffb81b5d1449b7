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

// Status is the state of a server, the answer of GET /status and, as text, of GET /. The text shows
// errors, paths and other foreign texts without control characters.
type Status struct {
	Name          string    `json:"name"` // host name, and port number of the debug port
	Version       string    `json:"version"`
	StartedAt     time.Time `json:"started_at"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Settings      string    `json:"settings"`          // hash of the settings that change decisions
	Health        string    `json:"health"`            // "OK", or the reason why the server should get no requests
	Problems      []Problem `json:"problems"`          // the worst first
	Servers       []Status  `json:"servers,omitempty"` // all servers on the same Redis, sorted by name
	Store         Store     `json:"store"`
	Rules         Rules     `json:"rules"`
	Exceptions    int       `json:"exceptions"` // number of exceptions in force
	// Decisions, Denials and Undecided are requests per second over the last ten seconds.
	Decisions float64 `json:"decisions_per_second"`
	Denials   float64 `json:"denials_per_second"`
	Undecided float64 `json:"undecided_per_second"`
}

// Problem describes a condition of a server that needs an operator's attention.
type Problem struct {
	Red   bool      `json:"red"` // limits do not apply, or soon will not; if false, something else needs attention
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // end of the problem, if it is over
	Text  string    `json:"text"`
	Means string    `json:"means"` // effect on requests
	Link  string    `json:"link"`  // section of a document that says what to do
}

// Rates are the requests per second in the five seconds before At. Undecided requests got an error, or
// a failure mode decided them.
type Rates struct {
	At                            time.Time
	Decisions, Denials, Undecided float64
}

// Store describes the store of counters. Unknown times are zero. For a store in memory, all fields below Works are zero.
type Store struct {
	Name         string    `json:"name"` // kind and address of the store
	Works        bool      `json:"works"`
	WorkedAt     time.Time `json:"worked_at,omitzero"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	FailedAt     time.Time `json:"failed_at,omitzero"`     // time of the last failed call
	Problem      string    `json:"problem,omitempty"`      // kind of the failed call's error, a colon, and the error
	FailureMode  string    `json:"failure_mode,omitempty"` // default for limits without a failure mode
	Breaker      string    `json:"breaker,omitempty"`      // closed, or open while Redis is not asked
}

// Rules describes the rules in use and the last attempt to load newer ones.
type Rules struct {
	Path    string `json:"path"` // source of the rules
	Rules   int    `json:"rules"`
	Domains int    `json:"domains"`
	Files   int    `json:"files"`             // number of files, or of resources of a control plane
	Version string `json:"version,omitempty"` // version of a control plane's resources
	// ControlPlane is the state of the connection, or empty if the rules are in files.
	ControlPlane string    `json:"control_plane,omitempty"`
	AwaySince    time.Time `json:"control_plane_away_since,omitzero"` // or zero while the server is connected

	Hash          string    `json:"hash,omitempty"`        // hash of the rules in use
	InUseSince    time.Time `json:"in_use_since,omitzero"` // first load with this hash
	LoadedAt      time.Time `json:"loaded_at,omitzero"`
	RefusedSince  time.Time `json:"refused_since,omitzero"` // first failed load after the last success
	FailedAt      time.Time `json:"failed_at,omitzero"`     // time of the last load, if it failed
	Problems      string    `json:"problems,omitempty"`     // problems of the last load, one per line, if it failed
	FailedVersion string    `json:"failed_version,omitempty"`
}

//go:embed status.txt
var statusText string

var texts = template.Must(template.New("").Funcs(Words).Funcs(template.FuncMap{
	"problems": func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") },
}).Parse(statusText))

// Words are template functions for the answers of a server.
var Words = map[string]any{
	"counted": operators.Counted,
	"failure": func(mode string) string { return Failures[mode] },
	"line":    func(s string) string { return Short(s, 500) },
	"span":    func(seconds float64) string { return operators.Span(operators.Seconds(seconds)) },
}

// Failures has the effects of failure modes on requests.
var Failures = map[string]string{
	"error": "limits are not decided; Envoy lets these requests pass unless failure_mode_deny is set",
	"allow": "requests pass and are not counted",
	"deny":  "requests are denied",
	"local": "each server counts alone, in memory",
}

// Short returns at most n characters of an untrusted text, without control characters.
func Short(s string, n int) string {
	s = plaintext.Line(s[:min(len(s), utf8.UTFMax*n)]) // bounds the work for a long text
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Text returns the status page without the list of endpoints.
func (s *Status) Text(v operators.Times) string { return s.text("status", v) }

// Text returns the part of the status page about the rules.
func (r *Rules) Text(v operators.Times) string { return (&Status{Rules: *r}).text("rules", v) }

func (s *Status) text(name string, v operators.Times) string {
	var b strings.Builder
	_ = texts.ExecuteTemplate(&b, name, struct { // cannot fail
		operators.Times
		*Status
	}{v, s})
	return b.String()
}
