package redis

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter/redis/conn"
)

// DefaultWait limits the wait of a caller without a deadline unless Options.Wait is set.
const DefaultWait = 100 * time.Millisecond

// Server describes a Redis deployment and how to reach it.
type Server = conn.Server

// Type is a kind of Redis deployment.
type Type = conn.Type

// Options are the properties of a store.
type Options struct {
	// Main is the Redis that keeps the counters.
	Main Server
	// PerSecond, if not nil, is a second Redis, for limits of unit second. Its Timeout is that of
	// Main unless it is set.
	PerSecond *Server
	// Wait limits the wait of a caller without a deadline, which is never longer than the Timeout
	// of its Redis. 0 means DefaultWait.
	Wait time.Duration
	// KeyPrefix starts the key of the counter that Ping charges. It must be the prefix of all
	// counters, because a user may be restricted to it.
	KeyPrefix string
	// DenyMemory is about how many bytes may be used to remember used-up counters, for which Redis
	// need not be asked for a second. Half as many bytes more are used for the last states of
	// other counters. 0 disables it.
	DenyMemory int
	// DenyCharged makes the memory also answer hits that are always charged, if their fixed window
	// is used up. Redis does not count these hits then, as with envoyproxy/ratelimit.
	DenyCharged bool
	// Now returns the time of decisions in tests. nil means the clock of Redis, which all servers
	// share.
	Now func() time.Time
	// Logger logs outages of Redis. nil disables it.
	Logger *slog.Logger
	// Registerer registers the metrics. nil disables them.
	Registerer prometheus.Registerer

	local func() time.Time // clock of this server in tests; nil means Now, or time.Now
}
