package redis

import (
	"log/slog"
	"sync"
)

// change follows whether a Redis accepts a changed URL, user or password, and logs it.
type change struct {
	log *slog.Logger

	mu      sync.Mutex
	refused error // nil: what was read last is in use
}

// report is Changed of a Server.
func (c *change) report(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused = err; err == nil {
		c.log.Info("redis accepts the changed URL, user or password")
		return
	}
	c.log.Warn("redis does not accept a changed URL, user or password yet, what was read before stays in use", "err", err)
}

// problem returns why what was read before stays in use, or nil.
func (c *change) problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
