package limiter

import (
	"context"
	"time"
)

// ReportsWantedFor is for how long a call of Shared.Reports lets servers report.
const ReportsWantedFor = 3 * time.Second

// Shared is what the servers on one Redis share: exceptions, and reports that expire. Each
// call is bounded by its context, and may have had an effect if it fails.
type Shared interface {
	// Exceptions returns the texts of exceptions by their IDs.
	Exceptions(ctx context.Context) (map[string]string, error)
	SetExceptions(ctx context.Context, texts map[string]string) error // by their IDs, all at once
	RemoveExceptions(ctx context.Context, ids ...string) error        // one or more
	// ReportsWanted reports whether Reports was called within ReportsWantedFor.
	ReportsWanted(ctx context.Context) (bool, error)
	// Report leaves the report of a server for a while. Reports asks all servers for theirs, and
	// returns those that are there, by the servers' names.
	Report(ctx context.Context, server string, report []byte) error
	Reports(ctx context.Context) (map[string]string, error)
}
