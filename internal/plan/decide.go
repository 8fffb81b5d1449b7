package plan

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/failover"
)

// Decider decides requests with the current rules and the counters of a store.
type Decider struct {
	*Planner
	// Rules returns the current rules, or nil if none are loaded.
	Rules func() *descriptors.Tree
	Store limiter.Store
	// Spread spreads the retry times of denied requests. If nil, the times are exact.
	Spread *limiter.RetrySpread
	// Failover decides requests when Store fails. nil disables it.
	Failover *failover.Failover
	Usage    Usage // nil disables it
	// Costly limits the work of requests that need more than descriptors.FreeWork, so that many of
	// them do not delay others. nil disables it.
	Costly *rate.Limiter
}

// Usage counts hits and failures for metrics.
type Usage interface {
	// Count counts the hits of a decided request.
	Count(hits []limiter.Hit, decisions []limiter.Decision)
	// CountFailure counts a request that neither the store nor the failover decided.
	CountFailure()
}

// ErrNoRules means that no rules are loaded.
var ErrNoRules = errors.New("no rules are loaded")

// RequestError means that a request is invalid.
type RequestError struct{ Err error }

func (e RequestError) Error() string { return e.Err.Error() }

func (e RequestError) Unwrap() error { return e.Err }

// match fills p as Prepare does. It starts with FreeWork and doubles the work until the work suffices,
// as long as Costly permits and the caller waits.
func (d *Decider) match(ctx context.Context, p *Plan, tree *descriptors.Tree, r *Request) error {
	if d.Costly == nil {
		return d.Prepare(p, tree, r)
	}
	work := descriptors.FreeWork
	err := d.prepare(p, tree, r, work)
	for p.work < 0 && work < descriptors.MaxWork && ctx.Err() == nil && d.Costly.AllowN(time.Now(), int(work)/runtime.GOMAXPROCS(0)) {
		work *= 2
		err = d.prepare(p, tree, r, work)
	}
	return err
}

// Decide decides r and stores the result in res, whose memory it reuses. res refers to the
// memory of r until res is reset. Decide fails with ErrNoRules, a RequestError or the error of
// the store. After an error of the store, only res.Plan is set.
func (d *Decider) Decide(ctx context.Context, r *Request, res *Result) error {
	res.Reset()
	tree := d.Rules()
	if tree == nil {
		return ErrNoRules
	}
	if err := d.match(ctx, &res.Plan, tree, r); err != nil {
		return RequestError{err}
	}
	denied, hits := false, res.Plan.Hits
	if len(hits) > 0 {
		var err error
		res.Decisions = slices.Grow(res.Decisions, len(hits))[:len(hits)]
		if denied, err = d.Store.Decide(ctx, hits, res.Decisions); err == nil {
			d.Failover.StoreDecided()
			if denied && d.Spread != nil {
				d.Spread.Spread(hits, res.Decisions)
			}
		} else if denied, err = d.Failover.Decide(ctx, hits, res.Decisions, err); err != nil {
			if d.Usage != nil {
				d.Usage.CountFailure()
			}
			return err
		}
		if d.Usage != nil {
			d.Usage.Count(hits, res.Decisions)
		}
	}
	res.useExceptions()
	res.setStatuses(&d.Options, denied)
	return nil
}
