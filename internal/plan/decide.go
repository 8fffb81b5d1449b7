package plan

import (
	"context"
	"errors"

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
	Usage    Usage
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

// Decide decides r. The Result is a part of r, which uses its memory again for the next one: it
// is valid until r is decided again or reset. An error is ErrNoRules, a RequestError, or that
// of the store. With the last there is a Result, too, which only says what was asked.
func (d *Decider) Decide(ctx context.Context, r *Request) (*Result, error) {
	tree := d.Rules()
	if tree == nil {
		return nil, ErrNoRules
	}
	res := &r.result
	if err := d.Prepare(res, tree, r); err != nil {
		return nil, RequestError{err}
	}
	denied := false
	if len(res.Hits) > 0 {
		var err error
		if denied, err = d.Store.Decide(ctx, res.Hits, res.Decisions); err == nil {
			d.Failover.StoreDecided()
			if denied && d.Spread != nil {
				d.Spread.Spread(res.Hits, res.Decisions)
			}
		} else if denied, err = d.Failover.Decide(ctx, res.Hits, res.Decisions, err); err != nil {
			d.Usage.CountFailure()
			return res, err
		}
		d.Usage.Count(res.Hits, res.Decisions)
	}
	res.SetStatuses(denied)
	return res, nil
}
