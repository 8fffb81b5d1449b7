package redis

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultWait is how long a caller without a deadline waits for Redis.
const DefaultWait = 100 * time.Millisecond

// Options say which Redis to use, and how.
type Options struct {
	// Main is the Redis that keeps the counters.
	Main Server
	// PerSecond, if not nil, is a second Redis, for limits of unit second. Its
	// Timeout is by default that of Main.
	PerSecond *Server
	// Wait is how long a caller without a deadline waits for Redis, but no longer than its
	// Timeout. 0 means DefaultWait.
	Wait time.Duration
	// KeyPrefix starts the key of the counter that Ping charges, as it does those of
	// all others, which is what a user may be permitted.
	KeyPrefix string
	// DenyMemory is about how many bytes may be used to remember counters that are
	// known to be over, so that Redis need not be asked again for a second; 0 means none. Half
	// as many more are for what was seen last of other counters.
	DenyMemory int
	// DenyCharged lets used-up fixed windows be remembered for hits that are charged always,
	// too. Redis does not count these hits then, as with envoyproxy/ratelimit.
	DenyCharged bool
	// Now returns the time of decisions in tests. nil means Redis' own clock, which is one
	// for all processes.
	Now func() time.Time
	// Logger logs when Redis fails and when it is back. nil means no log.
	Logger *slog.Logger
	// Registerer takes the metrics. nil means that nobody reads them.
	Registerer prometheus.Registerer
}
