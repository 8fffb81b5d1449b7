package admin

import (
	"fmt"
	"strings"
	"time"
)

// Status is how the server is, as its status page shows it.
type Status struct {
	Version string
	Uptime  time.Duration
	Health  error  // why it should get no requests, nil if it should
	Store   string // what keeps the counters, and where
	Rules   Rules
}

// Rules tells which rules serve, and what became of newer ones.
type Rules struct {
	Path                  string    // where they come from
	LoadedAt              time.Time // zero if none were loaded yet
	Files, Domains, Rules int
	FailedAt              time.Time // of the last load, zero if it succeeded
	Problems              string    // of the last load, one per line
}

// String is the page.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Weir %s, up %s\n\n", s.Version, s.Uptime.Truncate(time.Second))
	if s.Health == nil {
		b.WriteString("health    OK\n")
	} else {
		fmt.Fprintf(&b, "health    %s\n", s.Health)
	}
	fmt.Fprintf(&b, "counters  %s\n", s.Store)
	r := s.Rules
	if r.LoadedAt.IsZero() {
		fmt.Fprintf(&b, "rules     none loaded from %s yet\n", r.Path)
	} else {
		fmt.Fprintf(&b, "rules     %d (files: %d, domains: %d), loaded from %s at %s\n",
			r.Rules, r.Files, r.Domains, r.Path, r.LoadedAt.UTC().Format(time.RFC3339))
	}
	if !r.FailedAt.IsZero() {
		fmt.Fprintf(&b, "\nThe last load, at %s, failed and changed nothing:\n\n%s\n", r.FailedAt.UTC().Format(time.RFC3339), r.Problems)
	}
	b.WriteString(`
GET  /rlconfig       the rules that serve
POST /-/reload       load the rules now
GET  /debug/pprof/   profiles
`)
	return b.String()
}
