package exceptions

import (
	"context"
	"errors"
)

// ErrFull is the error of Store.Add where the store has its maximum of records.
var ErrFull = errors.New("there are as many exceptions as there may be")

// Store keeps the records of exceptions for all servers that share it, and a Version by
// which they see that something changed. It knows nothing of what is in a record. Its
// methods may be called at the same time, from several servers; each of them is done
// entirely or not at all, and for one that returns an error it may be unknown which,
// unless the error is ErrFull. The context bounds each call.
type Store interface {
	// Load returns all records, in any order, and their version. If that is known, it
	// returns no records, and reads nothing but the version: it is called twice a second.
	// Without any data the version is the zero one, and there are no records.
	Load(ctx context.Context, known Version) ([]Record, Version, error)

	// Add puts r beside the others, or in the place of one with the same ID, and changes the
	// version. If r is new and there are most records or more, it changes nothing and
	// returns ErrFull.
	Add(ctx context.Context, r Record, most int) error

	// Remove removes the record with id, and reports whether there was one. It changes the
	// version if there was.
	Remove(ctx context.Context, id string) (bool, error)

	// Restore adds those of records whose ID is missing, however many there are, and leaves
	// the others as they are. It changes the version if some were missing.
	Restore(ctx context.Context, records []Record) error

	// Forget removes the records with ids, as far as they are there, without a change of the
	// version: they have ended, and every server knows that without being asked to load.
	Forget(ctx context.Context, ids []string) error
}

// Record is an exception as a Store keeps it.
type Record struct {
	ID   string // of 1 to 64 letters and digits of ASCII
	Body []byte // any bytes, a few KiB: to be returned as they are
}

// Version is a state of a Store. Records and version are kept so that they are lost
// together or not at all: then the version is the zero one, and with the next change it
// has another epoch. So a server that knows records sees whether they were removed (same
// epoch, higher count) or lost (another epoch, or a lower count, as of a replica of Redis
// that was behind when it took over).
type Version struct {
	// Epoch is random, of 1 to 64 letters and digits of ASCII. It is chosen when the first
	// record is stored after there was no data, and stays as long as there is data; a set
	// whose last record was removed keeps its version.
	Epoch string
	// Count is 1 after that, and one more after each change.
	Count uint64
}
