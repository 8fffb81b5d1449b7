package admin

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators/api"
)

// Status is how the server is, as its status page shows it. What others wrote, such
// as errors and paths, is shown without control characters.
type Status struct {
	Version string
	Uptime  time.Duration
	Health  error // why it should get no requests, nil if it should
	Store   Store
	Rules   Rules
	Notes   []string // what else an operator should know, such as a switch that was left on
	// Decided and Denied are requests a second, over the last seconds.
	Decided, Denied float64
	Exceptions      int // in force
}

// Store says what keeps the counters, and whether it works.
type Store struct {
	Name string // what it is, and where
	// Remote reports whether it can fail. Only then does the rest say something.
	Remote       bool
	WorkedAt     time.Time // of the last call that succeeded, zero if none has
	FailingSince time.Time // zero unless it fails now
	FailedAt     time.Time // of the last call that failed, zero if none has
	Kind         string    // of its error
	Problem      string    // its error, which holds no secret
	Breaker      string    // closed, open or half-open, "" if there is none
	FailureMode  string    // of limits that have none of their own
}

// String is the line of the store, without its name.
func (s Store) String() string {
	when := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.UTC().Format(time.RFC3339)
	}
	problem := plaintext.Line(s.Problem)
	switch {
	case !s.FailingSince.IsZero():
		return fmt.Sprintf("FAILS since %s, failure modes decide (%s, unless a limit has its own); worked last: %s\n          last error at %s (%s): %s",
			when(s.FailingSince), s.FailureMode, when(s.WorkedAt), when(s.FailedAt), s.Kind, problem)
	case s.WorkedAt.IsZero():
		return "not asked yet"
	case s.FailedAt.IsZero():
		return "works, worked last: " + when(s.WorkedAt)
	default:
		return fmt.Sprintf("works, worked last: %s\n          last error at %s (%s): %s", when(s.WorkedAt), when(s.FailedAt), s.Kind, problem)
	}
}

// Rules says which rules serve, and what became of newer ones.
type Rules struct {
	Path                  string    // where they come from
	LoadedAt              time.Time // zero if none were loaded yet
	Files, Domains, Rules int       // files, or resources of a control plane
	FailedAt              time.Time // of the last load, zero if it succeeded
	Problems              string    // of the last load, one per line
	// Version is what a control plane calls the rules that serve, FailedVersion
	// those of the last load, if that failed. Files have none.
	Version, FailedVersion string
	// ControlPlane is where they come from, nil if that is files.
	ControlPlane *ControlPlane
}

// ControlPlane says what sends the rules, and how it is reached.
type ControlPlane struct {
	Connected bool
	Since     time.Time // of Connected, or of its opposite
	Problem   string    // why the last stream ended, "" if none has
}

// String says where the rules come from and what became of newer ones.
func (r Rules) String() string {
	var b strings.Builder
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	cp, path := r.ControlPlane, plaintext.Line(r.Path)
	switch {
	case r.LoadedAt.IsZero():
		fmt.Fprintf(&b, "none loaded from %s yet\n", path)
	case cp == nil:
		fmt.Fprintf(&b, "%d (files: %d, domains: %d), loaded from %s at %s\n", r.Rules, r.Files, r.Domains, path, at(r.LoadedAt))
	default:
		fmt.Fprintf(&b, "%d (resources: %d, domains: %d), version %q, loaded from %s at %s\n", r.Rules, r.Files, r.Domains, r.Version, path, at(r.LoadedAt))
	}
	if cp != nil {
		fmt.Fprintf(&b, "          %s\n", cp)
	}
	if r.FailedAt.IsZero() {
		return b.String()
	}
	what := "The last load"
	if cp != nil {
		what = fmt.Sprintf("The last load, of version %q", r.FailedVersion)
	}
	fmt.Fprintf(&b, "\n%s, at %s, failed and changed nothing:\n\n%s\n", what, at(r.FailedAt), plaintext.Lines(r.Problems))
	return b.String()
}

// String is the line of the control plane.
func (c ControlPlane) String() string {
	state, ended := "NOT connected", ""
	if c.Connected {
		state = "connected"
	}
	if c.Problem != "" {
		ended = ", the last stream ended: " + plaintext.Line(c.Problem)
	}
	return fmt.Sprintf("%s since %s%s", state, c.Since.UTC().Format(time.RFC3339), ended)
}

// String is the page, but for the list of what else there is.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Weir %s, up %s\n\n", s.Version, s.Uptime.Truncate(time.Second))
	if s.Health == nil {
		b.WriteString("health    OK\n")
	} else {
		fmt.Fprintf(&b, "health    %s\n", plaintext.Line(s.Health.Error()))
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "note      %s\n", note)
	}
	fmt.Fprintf(&b, "requests  %.1f/s decided, %.1f/s denied\n", s.Decided, s.Denied)
	if s.Exceptions > 0 {
		fmt.Fprintf(&b, "except    %d exceptions in force\n", s.Exceptions)
	}
	fmt.Fprintf(&b, "counters  %s\n", plaintext.Line(s.Store.Name))
	if s.Store.Remote {
		fmt.Fprintf(&b, "store     %s\n", s.Store)
	}
	fmt.Fprintf(&b, "rules     %s", s.Rules)
	return b.String()
}

// API is the status as clients read it.
func (s Status) API() api.Status {
	status := api.Status{
		Version: s.Version, UptimeSeconds: s.Uptime.Seconds(), Health: "OK", Notes: append([]string{}, s.Notes...),
		Store: s.Store.api(), Rules: s.Rules.api(), Exceptions: s.Exceptions, Decisions: s.Decided, Denials: s.Denied,
	}
	if s.Health != nil {
		status.Health = s.Health.Error()
	}
	return status
}

func (s Store) api() api.Store {
	store := api.Store{
		Name: s.Name, Works: s.FailingSince.IsZero() && (!s.Remote || !s.WorkedAt.IsZero()),
		WorkedAt: known(s.WorkedAt), FailingSince: known(s.FailingSince), FailedAt: known(s.FailedAt), Breaker: s.Breaker,
		FailureMode: s.FailureMode,
	}
	if !s.FailedAt.IsZero() {
		store.Problem = s.Kind + ": " + s.Problem
	}
	return store
}

func (r Rules) api() api.Rules {
	rules := api.Rules{
		Path: r.Path, Rules: r.Rules, Domains: r.Domains, Files: r.Files, Version: r.Version,
		LoadedAt: known(r.LoadedAt), FailedAt: known(r.FailedAt), Problems: r.Problems,
	}
	if r.ControlPlane != nil {
		rules.ControlPlane = r.ControlPlane.String()
	}
	return rules
}

// known returns nil for a time that is not known.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
