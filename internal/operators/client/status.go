package client

import (
	"fmt"
	"io"
	"strings"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators/api"
)

// status writes how the server at an address is.
func (v view) status(w io.Writer, server string, s *api.Status) {
	var rows strings.Builder
	line := func(field, format string, args ...any) { fmt.Fprintf(&rows, field+"\t"+format+"\n", args...) }
	line("server", "%s, Weir %s, up %s", text(server), text(s.Version), Span(Seconds(s.UptimeSeconds)))
	line("health", "%s", text(s.Health))
	for _, note := range s.Notes {
		line("note", "%s", text(note))
	}
	line("requests", "%.1f a second, %.1f of them denied", s.Decisions, s.Denials)
	line("exceptions", "%d in force", s.Exceptions)
	line("counters", "%s", text(s.Store.Name))
	v.store(&s.Store, func(format string, args ...any) { line("", format, args...) })
	r := &s.Rules
	line("rules", "%s in %s from %s", plural(r.Rules, "rule", "rules"), plural(r.Domains, "domain", "domains"), text(r.Path))
	if r.ControlPlane != "" {
		line("", "%s", text(r.ControlPlane))
	}
	if !r.LoadedAt.IsZero() {
		version := ""
		if r.Version != "" {
			version = fmt.Sprintf(", version %s", text(r.Version))
		}
		line("", "loaded at %s%s, files: %d", v.ago(r.LoadedAt), version, r.Files)
	}
	table(w, "", rows.String())
	if !r.FailedAt.IsZero() {
		fmt.Fprintf(w, "\nThe last load failed at %s and changed nothing:\n", v.ago(r.FailedAt))
		for problem := range strings.Lines(r.Problems) {
			fmt.Fprintf(w, "  %s\n", plaintext.Line(strings.TrimSuffix(problem, "\n")))
		}
	}
	if s.Denials > 0 {
		v.suggest(w, "Who is denied", "top")
	} else if s.Exceptions > 0 {
		v.suggest(w, "The exceptions", "except list")
	}
}

// store says whether a store that can fail works.
func (v view) store(s *api.Store, line func(format string, args ...any)) {
	switch {
	case !s.FailingSince.IsZero():
		line("FAILS %s, failure modes decide", v.since(s.FailingSince))
		if s.FailureMode != "" {
			line("failure mode %s: %s, unless a limit has a mode of its own", text(s.FailureMode), Failure(s.FailureMode))
		}
		if !s.WorkedAt.IsZero() {
			line("worked last at %s", v.ago(s.WorkedAt))
		}
	case !s.WorkedAt.IsZero():
		line("works, worked last at %s", v.ago(s.WorkedAt))
	case !s.Works:
		line("not asked yet")
	}
	if !s.FailedAt.IsZero() {
		line("failed last at %s", v.ago(s.FailedAt))
	}
	if s.Breaker != "" {
		line("breaker %s", text(s.Breaker))
	}
	if s.Problem != "" {
		line("last error: %s", text(s.Problem))
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
