package operators

import (
	"context"
	"time"
)

// Shared is the data that the servers on one Redis share: exceptions, and states of servers, reports
// and marks, which expire.
// Each call is bounded by its context, and may have had an effect if it fails.
type Shared interface {
	// Exceptions returns the texts of exceptions by their IDs.
	Exceptions(ctx context.Context) (map[string]string, error)
	SetExceptions(ctx context.Context, texts map[string]string) error // by their IDs, all at once
	RemoveExceptions(ctx context.Context, ids ...string) error        // one or more
	// Present stores the state of a server during lasts, and returns the states of all by their
	// names.
	Present(ctx context.Context, server string, state []byte, lasts time.Duration) (map[string]string, error)
	// ReportsWanted reports whether the time of a call of Reports lasts.
	ReportsWanted(ctx context.Context) (bool, error)
	// Report stores the report of a server, which expires soon.
	Report(ctx context.Context, server string, report []byte) error
	// Reports asks all servers to report during wanted, and returns those reports that are
	// stored now by the servers' names.
	Reports(ctx context.Context, wanted time.Duration) (map[string]string, error)
	// Mark sets a mark that expires and returns "". If the mark is set and replace is false, it
	// returns the mark's text, which is never empty.
	Mark(ctx context.Context, name, text string, lasts time.Duration, replace bool) (other string, err error)
}
