package plan

import (
	"context"
	"errors"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/failover"
)

// Decider decides requests: by the rules of the moment, on the counters of a store.
type Decider struct {
	*Planner
	// Rules returns the rules of the moment, nil if none are loaded.
	Rules func() *descriptors.Tree
	Store limiter.Store
	// Spread gives denied requests times to come back, one after the other. nil: they get
	// the exact time.
	Spread *limiter.RetrySpread
	// Failover decides what Store cannot. nil: nobody does.
	Failover *failover.Failover
	// Usage counts the hits. nil disables it.
	Usage Usage
}

// Usage counts what is asked of limits.
type Usage interface {
	// Count counts the hits of a request that was decided.
	Count(hits []limiter.Hit, decisions []limiter.Decision)
	// CountFailure counts a request that neither the store nor a failure mode decided.
	CountFailure()
}

// ErrNoRules means that no rules are loaded.
var ErrNoRules = errors.New("no rules are loaded")

// RequestError says what is wrong with a request.
type RequestError struct{ Err error }

func (e RequestError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e RequestError) Unwrap() error { return e.Err }

// Decide decides r. It replaces what res holds, using its memory again. res refers to the memory
// of r. An error is ErrNoRules, a RequestError, or the error of the store; after the store's
// error, res.Plan is set.
func (d *Decider) Decide(ctx context.Context, r *Request, res *Result) error {
	res.Reset()
	tree := d.Rules()
	if tree == nil {
		return ErrNoRules
	}
	if err := d.fill(&res.Plan, tree, r); err != nil {
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
