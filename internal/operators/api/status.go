package api

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
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
	FailedVersion string    `json:"-"`                  // of that load
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// String is the page, but for the list of what else there is.
func (s Status) String() string {
	var b strings.Builder
	up := time.Duration(s.UptimeSeconds * float64(time.Second))
	fmt.Fprintf(&b, "Weir %s, up %s\n\nhealth    %s\n", s.Version, up.Truncate(time.Second), plaintext.Line(s.Health))
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "note      %s\n", note)
	}
	fmt.Fprintf(&b, "requests  %.1f/s decided, %.1f/s denied\n", s.Decisions, s.Denials)
	if s.Exceptions > 0 {
		fmt.Fprintf(&b, "except    %d exceptions in force\n", s.Exceptions)
	}
	fmt.Fprintf(&b, "counters  %s\n", plaintext.Line(s.Store.Name))
	if s.Store.FailureMode != "" {
		fmt.Fprintf(&b, "store     %s\n", s.Store)
	}
	fmt.Fprintf(&b, "rules     %s", s.Rules)
	return b.String()
}

// String is the line of a store that can fail, without its name.
func (s Store) String() string {
	kind, problem, _ := strings.Cut(s.Problem, ": ")
	failed := fmt.Sprintf("\n          last error at %s (%s): %s", stamp(s.FailedAt), kind, plaintext.Line(problem))
	switch {
	case !s.FailingSince.IsZero():
		return fmt.Sprintf("FAILS since %s, failure modes decide (%s, unless a limit has its own); worked last: %s", stamp(s.FailingSince), s.FailureMode, stamp(s.WorkedAt)) + failed
	case s.WorkedAt.IsZero():
		return "not asked yet"
	case s.FailedAt.IsZero():
		failed = ""
	}
	return "works, worked last: " + stamp(s.WorkedAt) + failed
}

// String says where the rules come from and what became of newer ones.
func (r Rules) String() string {
	var b strings.Builder
	path, what, last := plaintext.Line(r.Path), "files", "The last load"
	if r.ControlPlane != "" {
		what, last = "resources", fmt.Sprintf("The last load, of version %q", r.FailedVersion)
	}
	if r.LoadedAt.IsZero() {
		fmt.Fprintf(&b, "none loaded from %s yet\n", path)
	} else {
		fmt.Fprintf(&b, "%d (%s: %d, domains: %d), ", r.Rules, what, r.Files, r.Domains)
		if r.ControlPlane != "" {
			fmt.Fprintf(&b, "version %q, ", r.Version)
		}
		fmt.Fprintf(&b, "loaded from %s at %s\n", path, stamp(r.LoadedAt))
	}
	if r.ControlPlane != "" {
		fmt.Fprintf(&b, "          %s\n", plaintext.Line(r.ControlPlane))
	}
	if !r.FailedAt.IsZero() {
		fmt.Fprintf(&b, "\n%s, at %s, failed and changed nothing:\n\n%s\n", last, stamp(r.FailedAt), plaintext.Lines(r.Problems))
	}
	return b.String()
}
