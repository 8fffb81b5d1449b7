package redis

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// reminder is the least time between two warnings. A Redis that fails every other call, such as
// a full one, must not fill the log.
const reminder = time.Minute

// State says whether Redis decides.
type State struct {
	WorkedAt     time.Time // of the last call that succeeded, zero if none has
	FailingSince time.Time // of the first call that failed since then, zero if none has
	FailedAt     time.Time // of the last call that failed, zero if none has
	Kind         string    // of its error, as the metric has it
	Problem      string    // the error itself, without passwords
	Breaker      string    // closed, or open: Redis is not asked; "" for a cluster
}

// state returns whether b decides.
func (b *backend) state() State {
	b.outage.mu.Lock()
	state := b.outage.state
	b.outage.mu.Unlock()
	switch {
	case b.breaker.isOpen():
		state.Breaker = "open"
	case b.breaker != nil:
		state.Breaker = "closed"
	}
	return state
}

// outage keeps the state and logs when Redis begins to fail, now and then while
// it does, and when it works again.
type outage struct {
	log func() *slog.Logger // names the server

	mu       sync.Mutex
	state    State
	warn     rate.Sometimes
	logged   bool // that it fails
	failures int  // since the last warning
}

// observe notes the outcome of a call.
func (o *outage) observe(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if err == nil {
		if o.logged {
			o.log().Info("redis works again", "after", now.Sub(o.state.FailingSince).Round(time.Millisecond))
		}
		o.logged, o.state.FailingSince, o.state.WorkedAt = false, time.Time{}, now
		return
	}
	if o.state.FailingSince.IsZero() {
		o.state.FailingSince = now
	}
	o.state.FailedAt, o.state.Kind, o.state.Problem = now, string(classify(err)), err.Error()
	o.failures++
	o.warn.Do(func() {
		o.log().Warn("redis is failing, failure modes apply", "kind", o.state.Kind, "err", o.state.Problem,
			"failed_calls", o.failures, "for", now.Sub(o.state.FailingSince).Round(time.Millisecond))
		o.logged, o.failures = true, 0
	})
}
