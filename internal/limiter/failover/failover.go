// Package failover decides requests while the store of the counters fails, by
// the failure mode of each limit.
//
// A request that the store could not decide is decided by all its limits:
//
//   - If the mode of one is error, it stays undecided. Not so a limit in shadow
//     mode, which is never to be noticed: it is taken for one of mode allow. Nor so
//     a request that an exception or an invalid value denies, whatever its limits say.
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
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter"
)

// calm is how long nothing was counted in memory when the store counts as back. One of
// which a part fails, such as a node of a cluster, must not make the counters of that
// part start anew with everything that another part decides.
const calm = 10 * time.Second

// Failover decides by failure modes what a store cannot. nil decides nothing.
type Failover struct {
	mode      limiter.FailureMode
	open      func() limiter.CounterStore
	began     time.Time
	counted   atomic.Int64                                 // when something was counted in memory last, since began
	local     atomic.Pointer[limiter.CounterStore]         // counts in memory during an outage; nil: there is none
	decisions [limiter.FailureLocal + 1]prometheus.Counter // by mode
}

// New returns a Failover. mode is that of limits that do not say it themselves. openLocal
// makes an empty store in memory, for one outage, and must not fail. reg takes the
// metrics; nil means that nobody reads them.
func New(mode limiter.FailureMode, openLocal func() limiter.CounterStore, reg prometheus.Registerer) *Failover {
	f := &Failover{mode: cmp.Or(mode, limiter.FailureError), open: openLocal, began: time.Now()}
	decisions := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "weir_failure_mode_decisions_total",
		Help: "Hits that the store could not decide, by the failure mode that decided instead. error leaves the request undecided.",
	}, []string{"mode"})
	for mode := limiter.FailureError; mode <= limiter.FailureLocal; mode++ {
		f.decisions[mode] = decisions.WithLabelValues(mode.String())
	}
	return f
}

// StoreDecided notes that the store works: it ends the outage, if there is one, when it has
// been calm.
func (f *Failover) StoreDecided() {
	if f == nil {
		return
	}
	s := f.local.Load()
	if s != nil && time.Since(f.began)-time.Duration(f.counted.Load()) >= calm {
		f.local.CompareAndSwap(s, nil)
	}
}

// localStore returns the store of the outage.
func (f *Failover) localStore() limiter.CounterStore {
	f.counted.Store(int64(time.Since(f.began)))
	for {
		if s := f.local.Load(); s != nil {
			return *s
		}
		s := f.open()
		f.local.CompareAndSwap(nil, &s)
	}
}

// Reset resets the counters of hits in the memory of this process.
func (f *Failover) Reset(ctx context.Context, hits []limiter.Hit) error {
	if f == nil {
		return nil
	}
	if s := f.local.Load(); s != nil {
		return (*s).Reset(ctx, hits)
	}
	return nil
}

// Decide decides what the store could not because of cause, and fills in out as
// limiter.Store does. It returns cause for a request with a limit of mode error, if cause
// does not wrap limiter.ErrUnavailable, and to a caller that went away.
func (f *Failover) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision, cause error) (denied bool, err error) {
	switch {
	case f == nil || !errors.Is(cause, limiter.ErrUnavailable) || !vetoed(hits) && f.undecidable(hits):
		return false, cause
	case ctx.Err() == nil:
		return f.decide(ctx, hits, out)
	}
	if slices.ContainsFunc(hits, func(h limiter.Hit) bool { return h.Unconditional() }) {
		// It reports what has happened already. It is counted although nobody waits.
		_, _ = f.decide(ctx, hits, out)
	}
	return false, cause
}

// modeOf is the failure mode by which a hit is decided.
func (f *Failover) modeOf(h *limiter.Hit) limiter.FailureMode {
	mode := cmp.Or(h.Limit.FailureMode, f.mode)
	switch {
	case mode == limiter.FailureError && h.EffectiveMode() == limiter.Shadow:
		return limiter.FailureAllow
	case mode == limiter.FailureAllow && h.Limit.Size() == 0:
		return limiter.FailureDeny
	default:
		return mode
	}
}

// vetoed reports whether an exception or an invalid value denies the request.
func vetoed(hits []limiter.Hit) bool {
	return slices.ContainsFunc(hits, func(h limiter.Hit) bool { return h.Limit.Veto && h.EffectiveMode() == limiter.Enforced })
}

// undecidable reports whether a request cannot be decided without its store.
func (f *Failover) undecidable(hits []limiter.Hit) bool {
	errors := 0
	for i := range hits {
		if f.modeOf(&hits[i]) == limiter.FailureError {
			errors++
		}
	}
	f.decisions[limiter.FailureError].Add(float64(errors))
	return errors > 0
}

// decide decides a request that has no limit of mode error, or that an exception denies.
// In memory, a limit of another mode than local is asked for as one whose decision is
// known, so that it has its say when the local ones are decided.
func (f *Failover) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	questions := make([]limiter.Hit, len(hits))
	counts := false
	for i := range hits {
		h := &hits[i]
		mode := f.modeOf(h)
		f.decisions[mode].Inc()
		if mode == limiter.FailureLocal {
			questions[i], counts = *h, true
			continue
		}
		limit := opened
		if mode == limiter.FailureDeny {
			limit = closed
		}
		// A peek, which writes nothing.
		questions[i] = limiter.Hit{Limit: limit, Key: []byte(limit.Name), Refund: h.Refund, Mode: h.EffectiveMode()}
		out[i] = limiter.Decision{Over: limit == closed && !h.Refund}
	}
	if !counts {
		denied = limiter.Settle(hits, out)
	} else if denied, err = f.localStore().Decide(ctx, questions, out); err != nil {
		return false, err
	}
	for i := range hits {
		if questions[i].Limit != hits[i].Limit {
			out[i] = assume(&hits[i], out[i].Over, denied)
		}
	}
	return denied, nil
}

// Limits whose decisions are known.
var opened, closed = known("opened", math.MaxUint32), known("closed", 0)

func known(name string, amount uint64) *limiter.Limit {
	return limiter.MustLimit(limiter.Spec{Name: name, RequestsPerUnit: amount, Unit: limiter.Second})
}

// retryAfter is when to come back to a limit of mode deny: nobody knows when the
// store is back.
const retryAfter = time.Second

// assume is the decision on a hit that nobody counts: that of a counter that is
// full, or of an unused one, of which nothing is taken. An admitted hit is said
// to be charged, so that metrics count its units as admitted.
func assume(h *limiter.Hit, over, denied bool) limiter.Decision {
	size := int64(h.Limit.Size())
	switch {
	case over && size == 0:
		return limiter.Decision{Over: true, ResetAfter: retryAfter, RetryAfter: limiter.Never}
	case over:
		return limiter.Decision{Over: true, Used: size, ResetAfter: retryAfter, RetryAfter: retryAfter}
	}
	return limiter.Decision{Charged: h.Cost > 0 && !denied, Remaining: size}
}
