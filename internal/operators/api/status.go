package api

import (
	"cmp"
	"fmt"
	"strings"
	"time"

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

// Text is the page, but for the list of endpoints.
func (s *Status) Text(v operators.Times) string {
	var b strings.Builder
	line := func(field, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", field, plaintext.Line(operators.Begin(fmt.Sprintf(format, args...), longestLine)))
	}
	line("version", "Weir %s, up %s", s.Version, operators.Span(operators.Seconds(s.UptimeSeconds)))
	line("health", "%s", s.Health)
	for _, note := range s.Notes {
		line("note", "%s", note)
	}
	line("requests", "%.1f a second, %.1f of them denied", s.Decisions, s.Denials)
	line("exceptions", "%d in force", s.Exceptions)
	line("counters", "%s", s.Store.Name)
	s.Store.lines(v, line)
	served, failed := s.Rules.lines(v)
	for i, text := range served {
		line([]string{"rules", ""}[min(i, 1)], "%s", text)
	}
	return b.String() + failed
}

// Text says which rules serve, and what became of newer ones.
func (r *Rules) Text(v operators.Times) string {
	served, failed := r.lines(v)
	return plaintext.Lines(strings.Join(served, "\n")+"\n") + failed
}

func (r *Rules) lines(v operators.Times) (served []string, failed string) {
	files := "files"
	if r.ControlPlane != "" {
		files = "resources"
	}
	if r.LoadedAt.IsZero() {
		served = append(served, fmt.Sprintf("none loaded from %s yet", r.Path))
	} else {
		served = append(served, fmt.Sprintf("%s in %s from %s", operators.Counted(r.Rules, "rule"), operators.Counted(r.Domains, "domain"), r.Path),
			fmt.Sprintf("loaded at %s%s %s: %d", v.Ago(r.LoadedAt), cmp.Or(version(r.Version), ","), files, r.Files))
	}
	if r.ControlPlane != "" {
		served = append(served, r.ControlPlane)
	}
	if !r.FailedAt.IsZero() {
		failed = fmt.Sprintf("\nThe last load%s failed at %s and changed nothing:\n", plaintext.Line(version(r.FailedVersion)), v.Ago(r.FailedAt))
		for problem := range strings.Lines(r.Problems) {
			failed += "  " + plaintext.Line(strings.TrimSuffix(problem, "\n")) + "\n"
		}
	}
	return served, failed
}

// longestLine bounds a line, whose text may be of others, in bytes.
const longestLine = 500

func version(v string) string {
	if v == "" {
		return ""
	}
	return fmt.Sprintf(", version %q,", v)
}

// lines says whether a store that can fail works.
func (s *Store) lines(v operators.Times, line func(field, format string, args ...any)) {
	switch {
	case s.FailureMode == "": // it cannot fail
		return
	case !s.FailingSince.IsZero():
		line("", "FAILS %s, failure modes decide", v.Since(s.FailingSince))
		line("", "failure mode %s: %s, unless a limit has a mode of its own", s.FailureMode, Failure(s.FailureMode))
		if !s.WorkedAt.IsZero() {
			line("", "last worked at %s", v.Ago(s.WorkedAt))
		}
	case s.WorkedAt.IsZero():
		line("", "not asked yet")
	default:
		line("", "works, last at %s", v.Ago(s.WorkedAt))
	}
	if !s.FailedAt.IsZero() {
		line("", "last error at %s: %s", v.Ago(s.FailedAt), s.Problem)
	}
	if s.Breaker != "" {
		line("", "breaker %s", s.Breaker)
	}
}

// Failure says what a failure mode means for requests.
func Failure(mode string) string {
	switch mode {
	case "error":
		return "callers get UNAVAILABLE"
	case "allow":
		return "requests pass and are not counted"
	case "deny":
		return "requests are denied"
	case "local":
		return "each server counts alone, in memory"
	default: // of a later version
		return "see its documents"
	}
}
