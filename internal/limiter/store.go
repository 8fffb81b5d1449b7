package limiter

import (
	"context"
	"errors"
)

// Store keeps counters and decides requests on them.
type Store interface {
	// Decide does for the counters of hits what the function Decide says, in one
	// atomic step: no other request, of this process or another one on the same
	// counters, is decided in between. It fills out, which is as long as hits,
	// and tells whether the request is denied.
	//
	// ctx bounds how long the caller waits, not what happens: a request that the
	// store has taken on is decided and written even if its caller has gone.
	// After an error, which wraps ErrUnavailable if the store could not be asked
	// or did not answer in time, out is void and the request may or may not have
	// been counted.
	//
	// hits must not be empty, and holds no unlimited limit. The store keeps
	// neither hits nor out after it returned.
	Decide(ctx context.Context, hits []Hit, out []Decision) (denied bool, err error)
}

// ErrUnavailable tells that a store could not decide: it is down, too slow, or
// refuses to work. What exactly is in the error that wraps it.
var ErrUnavailable = errors.New("store unavailable")
