package operators

import (
	"context"
	"time"
)

// Shared is the data that the servers on one Redis share: exceptions, assigned amounts, and texts that
// expire: states of servers, reports and marks. Each call returns when its context ends. A call
// that fails may have had its effect.
type Shared interface {
	EntryStore
	// Present stores the state of a server for the duration lasts, and returns the states of all servers by name.
	Present(ctx context.Context, server string, state []byte, lasts time.Duration) (map[string]string, error)
	// ReportsWanted reports whether a call of Reports, by any server, still asks for reports.
	ReportsWanted(ctx context.Context) (bool, error)
	// Report stores a report for the named server. The report expires after a short time.
	Report(ctx context.Context, server string, report []byte) error
	// Reports asks all servers to report for the duration wanted, and returns the stored reports by server name.
	Reports(ctx context.Context, wanted time.Duration) (map[string]string, error)
	// Mark sets the mark name to text for the duration lasts, and returns "". If the mark already exists
	// and replace is false, Mark changes nothing and returns the existing text, which is never empty.
	Mark(ctx context.Context, name, text string, lasts time.Duration, replace bool) (other string, err error)
}

// EntryStore has texts by ID, in parts: part 0 has the exceptions, and all other parts have the assigned
// amounts. Each part has a list of its last changes, the newest first. Each call returns when its context
// ends. If Change fails, it may have had its effect.
type EntryStore interface {
	// Version returns a text that is different after each change, or "" if Redis has none.
	Version(ctx context.Context) (string, error)
	// Changes returns the number of texts of a part, or -1 if the part was never changed or is lost. It
	// also returns the oldest changes after the change newest, in reverse order, with the texts of their
	// IDs, or "" for a removed text. If the list lacks newest, found is false, changes is the whole list, and
	// texts is empty.
	Changes(ctx context.Context, part int, newest string) (size int, changes, texts []string, found bool, err error)
	// Scan calls yield with all texts of a part. Texts that change during the call may be old or missing.
	Scan(ctx context.Context, part int, yield func(id, text string)) error
	// Change sets texts of a part by ID, or removes a text if the new text is empty, and returns the newest
	// change. The token, of 8 bytes, begins the changes. If newest is not the newest change, Change does
	// nothing and returns "behind". again means that Redis has lost the texts: a text then replaces only an
	// older text. For two seconds after that, calls without again do nothing and return "wait".
	Change(ctx context.Context, part int, newest, token string, again bool, texts [][2]string) (string, error)
}
