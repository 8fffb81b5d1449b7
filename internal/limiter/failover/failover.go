// Package failover decides requests while the store of the counters fails, by
// the failure mode of each limit. It is a store around another one, and neither
// decides nor counts anything as long as that one answers.
//
// A request that the store could not decide is decided by all its limits:
//
//   - If the mode of one is error, it stays undecided. Not so a limit in shadow
//     mode, which is never to be noticed: it is taken for one of mode allow. Nor so
//     a request that an exception denies, whatever its limits say.
//   - A limit of mode deny is over. What that means for the request, the limit's
//     mode says as ever: a shadow limit that is over denies nothing.
//   - A limit of mode allow admits its hit, unless it is a limit of 0, which
//     denies everything and needs no store to do so.
//   - Limits of mode local are decided together in the memory of this process,
//     all or nothing: if the request is denied, by one of them or by a limit of
//     mode deny, nothing is taken there but what is charged always.
//
// Refunds are admitted as ever; but for local they are lost. Each process counts
// local limits for itself, from 0 on, and the request that the store failed to
// answer in time may have been counted there, too. When the store is back, its
// counters are all that counts.
package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// Options say what a Store consists of. All fields but Registerer are required.
type Options struct {
	// Primary is the store that fails at times.
	Primary limiter.CounterStore
	// OpenLocal makes an empty store in memory, for one outage. It must not fail.
	OpenLocal func() limiter.CounterStore
	// Mode is that of limits that do not say it themselves.
	Mode limiter.FailureMode
	// Registerer takes the metrics. nil means that nobody reads them.
	Registerer prometheus.Registerer
}

// Store is a limiter.Store that decides by failure modes what another one cannot.
type Store struct {
	primary limiter.CounterStore
	local   local
	mode    limiter.FailureMode
	metrics *metrics
}

var _ limiter.CounterStore = (*Store)(nil)

// New returns a store around o.Primary.
func New(o Options) *Store {
	return &Store{
		primary: o.Primary,
		local:   newLocal(o.OpenLocal),
		mode:    cmp.Or(o.Mode, limiter.FailureError),
		metrics: newMetrics(o.Registerer),
	}
}

// Decide implements limiter.Store. An error that wraps limiter.ErrUnavailable is
// that of the primary store, for a request with a limit of mode error. A caller
// that went away gets the error, too, and no decision.
func (s *Store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	denied, err = s.primary.Decide(ctx, hits, out)
	switch {
	case err == nil:
		s.local.primaryDecided()
		return denied, nil
	case !errors.Is(err, limiter.ErrUnavailable) || !vetoed(hits) && s.undecidable(hits):
		return false, err
	case ctx.Err() == nil:
		return s.decide(ctx, hits, out)
	}
	if slices.ContainsFunc(hits, func(h limiter.Hit) bool { return h.Unconditional() }) {
		// It reports what has happened already. It is counted although nobody waits.
		_, _ = s.decide(ctx, hits, out)
	}
	return false, err
}

// Peek implements limiter.CounterStore for the counters of the primary store, which are
// all that count when it is back. It does not show those in memory.
func (s *Store) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	return s.primary.Peek(ctx, hits)
}

// Reset implements limiter.CounterStore. The counters in memory are reset, too, even if
// those of the primary store are not.
func (s *Store) Reset(ctx context.Context, hits []limiter.Hit) error {
	err := s.primary.Reset(ctx, hits)
	if local := s.local.current.Load(); local != nil {
		err = errors.Join(err, (*local).Reset(ctx, hits))
	}
	return err
}
