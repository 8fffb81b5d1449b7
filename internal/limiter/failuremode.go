package limiter

import "slices"

// FailureMode says what becomes of the hits on a limit while the store fails.
// What follows for a request with limits of several modes is told in package
// failover.
type FailureMode uint8

const (
	// FailureByDefault leaves it to the server's setting.
	FailureByDefault FailureMode = iota
	// FailureError leaves the request undecided.
	FailureError
	// FailureAllow admits them, uncounted.
	FailureAllow
	// FailureDeny takes the limit to be over.
	FailureDeny
	// FailureLocal counts them in the memory of this process.
	FailureLocal
)

var failureModes = [...]string{FailureByDefault: "default", FailureError: "error", FailureAllow: "allow", FailureDeny: "deny", FailureLocal: "local"}

// FailureModeNames lists the names that ParseFailureMode accepts, in the order
// of the constants from FailureError on.
func FailureModeNames() []string { return failureModes[FailureError:] }

// ParseFailureMode finds a mode by its name.
func ParseFailureMode(name string) (FailureMode, bool) {
	i := slices.Index(FailureModeNames(), name)
	return FailureError + FailureMode(i), i >= 0
}

// String is the mode's name.
func (m FailureMode) String() string { return failureModes[m] }
