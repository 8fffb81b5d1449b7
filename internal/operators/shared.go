package operators

import (
	"context"
	"time"
)

// Shared is the data that the servers on one Redis share: exceptions, assigned amounts, and texts that
// expire (server states, reports and marks). Each call returns when its context ends. A failed call may
// have had an effect.
type Shared interface {
	EntryStore
	// Present stores a server's state for the time given by lasts, and returns the states of all servers by name.
	Present(ctx context.Context, server string, state []byte, lasts time.Duration) (map[string]string, error)
	// ReportsWanted reports whether any server still wants reports after its last call of Reports.
	ReportsWanted(ctx context.Context) (bool, error)
	// Report stores a report for the named server. The report expires after a short time.
	Report(ctx context.Context, server string, report []byte) error
	// Reports asks all servers to report for the time given by wanted, and returns the stored reports by name.
	Reports(ctx context.Context, wanted time.Duration) (map[string]string, error)
	// Mark sets the named mark to text for the time given by lasts, and returns "". If the mark already
	// exists and replace is false, Mark changes nothing and returns the existing text, which is never empty.
	Mark(ctx context.Context, name, text string, lasts time.Duration, replace bool) (other string, err error)
}

// EntryStore stores texts by ID, in parts: part 0 has the exceptions, and all other parts have the assigned
// amounts. Each part has a list of its last changes, the newest first. Each call returns when its context
// ends. A failed Change may have had an effect.
type EntryStore interface {
	// Version returns a text that differs after each change, or "" if Redis has no version.
	Version(ctx context.Context) (string, error)
	// Changes returns the number of texts of a part, or -1 if the part was never changed or is lost. It also
	// returns the first changes made after newest, in reverse order, each with the text of its ID, or "" if
	// the text was removed. If the list does not contain newest, found is false, changes is the whole list,
	// and texts is empty.
	Changes(ctx context.Context, part int, newest string) (size int, changes, texts []string, found bool, err error)
	// Scan calls yield for each text of a part. Texts that change during the call may be old or missing.
	Scan(ctx context.Context, part int, yield func(id, text string)) error
	// Change sets texts of a part by ID, removes each text whose new text is empty, and returns the newest change.
	// Each new change begins with token, which has 8 bytes. If newest is not the newest change, Change does nothing
	// and returns "behind". If again is true, Redis has lost the texts, and a text replaces only an older one. For
	// two seconds after that, calls without again do nothing and return "wait".
	Change(ctx context.Context, part int, newest, token string, again bool, texts [][2]string) (string, error)
}
