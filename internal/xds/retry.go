package xds

import (
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// soon is the most that the first attempt waits after a stream has ended: most
// control planes are away for a moment only.
const soon = time.Second

// retries says how long to wait before each attempt.
type retries struct {
	spread             float64
	every              time.Duration // between two attempts that come soon, at least
	soon               time.Time     // when the next may be that, zero as long as none was
	unreachable, ended *backoff.ExponentialBackOff
}

func newRetries(retry time.Duration, b Backoff) *retries {
	return &retries{
		spread: b.Spread, every: b.Initial,
		unreachable: exponential(retry, b), ended: exponential(b.Initial, b),
	}
}

func exponential(initial time.Duration, b Backoff) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval:     initial,
		MaxInterval:         max(initial, b.Max),
		Multiplier:          2,
		RandomizationFactor: b.Spread,
	}
}

// wait returns how long to wait after an attempt. reached reports whether there was a
// stream, worked whether that showed that the control plane works.
func (r *retries) wait(now time.Time, reached, worked bool) time.Duration {
	if worked {
		r.unreachable.Reset()
		r.ended.Reset()
	}
	delays := r.unreachable
	if reached {
		delays = r.ended
	}
	if (worked || r.soon.IsZero()) && !now.Before(r.soon) {
		r.soon = now.Add(r.every) // a control plane that ends every stream is not asked each second
		most := min(soon, delays.InitialInterval)
		return most - time.Duration(r.spread*rand.Float64()*float64(most)) //nolint:gosec // no secret
	}
	return delays.NextBackOff()
}
