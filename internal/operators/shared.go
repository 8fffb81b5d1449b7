package operators

import (
	"context"
	"time"
)

// Shared is the data that the servers on one Redis share: exceptions and assigned amounts, and states of
// servers, reports and marks, which expire. Each call is bounded by its context, and may have had an
// effect if it fails.
type Shared interface {
	EntryStore
	// Present stores the state of a server during lasts, and returns the states of all by their
	// names.
	Present(ctx context.Context, server string, state []byte, lasts time.Duration) (map[string]string, error)
	// ReportsWanted reports whether the time wanted of a call of Reports has not passed.
	ReportsWanted(ctx context.Context) (bool, error)
	// Report stores the report of a server, which expires soon.
	Report(ctx context.Context, server string, report []byte) error
	// Reports asks all servers to report during the next wanted, and returns the stored reports
	// by the names of the servers.
	Reports(ctx context.Context, wanted time.Duration) (map[string]string, error)
	// Mark sets a mark that expires and returns "". If the mark is set and replace is false, it
	// returns the mark's text, which is never empty.
	Mark(ctx context.Context, name, text string, lasts time.Duration, replace bool) (other string, err error)
}

// EntryStore has texts by ID, in parts: part 0 has the exceptions, and the others have the assigned
// amounts. A part has a list of its last changes, newest first. Each call is bounded by its context,
// and Change may have had an effect if it fails.
type EntryStore interface {
	// Version returns a text that differs after each change.
	Version(ctx context.Context) (string, error)
	// Changes returns the number of texts of a part, or -1 if the part was never changed or is lost. It
	// also returns the oldest changes after newest, newest first, with their texts, which are empty
	// for removed ones. If newest is not found, it returns the whole list without texts.
	Changes(ctx context.Context, part int, newest string) (size int, changes, texts []string, found bool, err error)
	// Scan calls yield with all texts of a part. Texts that change during the call may be old or missing.
	Scan(ctx context.Context, part int, yield func(id, text string)) error
	// Change sets texts of a part by ID, or removes empty ones, with a token of 8 bytes, and returns the
	// newest change. If newest is not the newest change, it does nothing and returns "behind". If again is
	// set, Redis has lost the texts, and a text replaces only an older one; for two seconds after that it
	// does nothing else and returns "wait".
	Change(ctx context.Context, part int, newest, token string, again bool, texts [][2]string) (string, error)
}
