package failover

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"weir/internal/limiter"
)

// retryAfter is when to come back to a limit of mode deny: nobody knows when the
// store is back.
const retryAfter = time.Second

// modeOf is the failure mode by which a hit is decided.
func (s *Store) modeOf(h *limiter.Hit) limiter.FailureMode {
	mode := cmp.Or(h.Limit.FailureMode, s.mode)
	switch {
	case mode == limiter.FailureError && h.EffectiveMode() == limiter.Shadow:
		return limiter.FailureAllow
	case mode == limiter.FailureAllow && h.Limit.Size() == 0:
		return limiter.FailureDeny
	default:
		return mode
	}
}

// vetoed reports whether an exception denies the request.
func vetoed(hits []limiter.Hit) bool {
	return slices.ContainsFunc(hits, func(h limiter.Hit) bool { return h.Limit.Veto && h.EffectiveMode() == limiter.Enforced })
}

// undecidable reports whether a request cannot be decided without its store.
func (s *Store) undecidable(hits []limiter.Hit) bool {
	errors := 0
	for i := range hits {
		if s.modeOf(&hits[i]) == limiter.FailureError {
			errors++
		}
	}
	s.metrics.count(limiter.FailureError, errors)
	return errors > 0
}

// decide decides a request that has no limit of mode error, or that an exception denies.
func (s *Store) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if denied, err = s.settle(ctx, hits, out); err != nil {
		return false, err
	}
	for i := range hits {
		mode := s.modeOf(&hits[i])
		s.metrics.count(mode, 1)
		if mode != limiter.FailureLocal {
			out[i] = assume(&hits[i], out[i].Over, denied)
		}
	}
	return denied, nil
}

// settle finds out which hits are over and what follows for the request, and
// counts those of local limits. It fills in the decisions of these, and whether
// others are over.
func (s *Store) settle(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	questions := make([]limiter.Hit, len(hits))
	counts := false
	for i := range hits {
		h := &hits[i]
		switch s.modeOf(h) {
		case limiter.FailureAllow, limiter.FailureError:
			questions[i] = opened.ask(h)
		case limiter.FailureDeny:
			questions[i] = closed.ask(h)
		default:
			questions[i], counts = *h, true
		}
		out[i] = limiter.Decision{Over: questions[i].Limit == closed.limit && !h.Refund}
	}
	if !counts {
		return limiter.Settle(hits, out), nil
	}
	return s.local.store().Decide(ctx, questions, out)
}

// known is a limit whose decisions are known. In place of a limit that is not
// counted it has its say when the others are decided.
type known struct {
	limit *limiter.Limit
	key   []byte
}

var (
	opened = newKnown("opened", math.MaxUint32)
	closed = newKnown("closed", 0)
)

func newKnown(key string, amount uint64) known {
	l, err := limiter.NewLimit(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Second})
	if err != nil {
		panic(err) // the amount is one of the two above
	}
	return known{l, []byte(key)}
}

// ask asks k instead of the limit of h. It is a peek, which writes nothing.
func (k known) ask(h *limiter.Hit) limiter.Hit {
	return limiter.Hit{Limit: k.limit, Key: k.key, Refund: h.Refund, Mode: h.EffectiveMode()}
}

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
