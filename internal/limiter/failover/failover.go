// Package failover decides requests by the failure modes of their limits while the store fails.
//
// All limits of a request that the store could not decide take part in the decision:
//
//   - If a limit has failure mode error, the request stays undecided. But for a limit in shadow
//     mode, which must have no effect, error means allow. A request that an exception or an invalid
//     value denies is always denied.
//   - A limit with failure mode deny counts as exceeded; its mode (enforced, shadow, quota)
//     then decides as usual.
//   - A limit with failure mode allow admits its hit. But a limit of 0 denies everything, with or
//     without a store.
//   - Limits with failure mode local are decided together in the memory of this process. If the
//     request is denied, they count only hits that are always charged.
//
// Refunds are admitted as usual, but only limits with failure mode local count them. Each process
// has its own local counters, which start from 0. If the store did not answer in time, it may have
// counted the request as well. When the store is back, only the counters in the store matter.
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

// calm is the time without local decisions after which the store is considered to be back. While
// part of a store fails, such as a node of a cluster, decisions of other parts must not reset the
// local counters.
const calm = 10 * time.Second

// Failover decides by failure modes when the store cannot. A nil Failover decides nothing.
type Failover struct {
	mode      limiter.FailureMode
	open      func() limiter.CounterStore
	began     time.Time
	counted   atomic.Int64                                 // time of the last local decision, measured from began
	local     atomic.Pointer[limiter.CounterStore]         // local store of the current outage, or nil
	decisions [limiter.FailureLocal + 1]prometheus.Counter // decided hits by failure mode
	Requests  atomic.Uint64                                // number of requests that Failover decided
}

// New returns a Failover. mode applies to limits without a failure mode of their own. openLocal
// returns an empty store in memory for one outage. reg registers the metrics; nil disables them.
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

// StoreDecided reports that the store has decided a request. It ends an outage if no request has
// been decided locally for at least calm.
func (f *Failover) StoreDecided() {
	if f == nil {
		return
	}
	s := f.local.Load()
	if s != nil && time.Since(f.began)-time.Duration(f.counted.Load()) >= calm {
		f.local.CompareAndSwap(s, nil)
	}
}

// localStore returns the local store of the outage. The first call in an outage makes this store.
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

// Reset resets the local counters of hits. It does nothing if there is no outage.
func (f *Failover) Reset(ctx context.Context, hits []limiter.Hit) error {
	if f == nil {
		return nil
	}
	if s := f.local.Load(); s != nil {
		return (*s).Reset(ctx, hits)
	}
	return nil
}

// Decide decides a request that the store could not decide because of cause, and fills in out as
// limiter.Store does. It returns cause if failure mode error leaves the request undecided, if cause
// does not wrap limiter.ErrUnavailable, or if the caller has left.
func (f *Failover) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision, cause error) (denied bool, err error) {
	switch {
	case f == nil || !errors.Is(cause, limiter.ErrUnavailable) || !vetoed(hits) && f.undecidable(hits):
		return false, cause
	case ctx.Err() == nil:
		f.Requests.Add(1)
		return f.decide(ctx, hits, out)
	}
	if slices.ContainsFunc(hits, func(h limiter.Hit) bool { return h.Unconditional() }) {
		// The request reports past use, so it counts even if the caller has left.
		_, _ = f.decide(ctx, hits, out)
	}
	return false, cause
}

// modeOf returns the failure mode that decides a hit.
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

// undecidable reports whether a request cannot be decided without the store.
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

// decide decides a request that failure mode error does not leave undecided. For the local store,
// it replaces each limit whose failure mode is not local with a limit that admits or denies
// everything, so that all limits take part in one decision.
func (f *Failover) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	questions := make([]limiter.Hit, len(hits))
	anyLocal := false
	for i := range hits {
		h := &hits[i]
		mode := f.modeOf(h)
		f.decisions[mode].Inc()
		if mode == limiter.FailureLocal {
			questions[i], anyLocal = *h, true
			continue
		}
		limit := opened
		if mode == limiter.FailureDeny {
			limit = closed
		}
		// Without a Cost, the hit is a peek, which writes nothing.
		questions[i] = limiter.Hit{Limit: limit, Key: []byte(limit.Name), Refund: h.Refund, Mode: h.EffectiveMode(), Group: h.Group}
		out[i] = limiter.Decision{Over: limit == closed && !h.Refund}
	}
	if !anyLocal {
		denied = limiter.Conclude(hits, out)
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

// opened is a limit that admits everything, and closed is a limit that denies everything.
var opened, closed = known("opened", math.MaxUint32), known("closed", 0)

func known(name string, amount uint64) *limiter.Limit {
	return limiter.MustLimit(limiter.Spec{Name: name, RequestsPerUnit: amount, Unit: limiter.Second})
}

// retryAfter is the RetryAfter of a hit that failure mode deny denies. It is a guess, because the
// end of the outage is unknown.
const retryAfter = time.Second

// assume returns the decision of a hit that is not counted: as for a full counter if over is true,
// and otherwise as for an unused counter. If the request is admitted, the hit is reported as
// charged, so metrics count its units as admitted.
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
