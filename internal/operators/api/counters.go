package api

import (
	"context"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// CounterOptions say where the counters of descriptors are.
type CounterOptions struct {
	Rules func() *descriptors.Tree // those that serve, nil if there are none yet
	Store limiter.CounterStore
	// Plan is how the server makes hits of requests.
	Plan plan.Options
	// ShowKeys shows the keys of the counters, because others can look at them, too.
	ShowKeys bool
	// Announce has other servers forget which counters are over. nil: there are none.
	Announce func(context.Context) error
}

// CounterReader looks at counters, and resets them. It asks the code that serves: plan makes
// the hits, the store says what their counters hold. It is safe for concurrent use.
type CounterReader struct {
	CounterOptions
	planner *plan.Planner
}

// NewCounterReader returns a CounterReader.
func NewCounterReader(o CounterOptions) *CounterReader {
	// An exception may be in the place of limits, whose counters are still there.
	rules := o.Plan
	rules.Exceptions = nil
	return &CounterReader{o, plan.New(rules)}
}

// Peek returns the counters of a descriptor. Without a rule for it there are none. Its
// errors are of the kinds of adminapi, or the context has ended.
func (c *CounterReader) Peek(ctx context.Context, domain string, entries []limiter.Entry) (Counters, error) {
	return c.look(ctx, domain, entries, func(context.Context, []limiter.Hit) error { return nil })
}

// Reset sets all counters of a descriptor to zero, without bans and holds, and returns
// them as they are then. If only the other servers could not be notified, they are reset,
// and it returns an error all the same.
func (c *CounterReader) Reset(ctx context.Context, domain string, entries []limiter.Entry) (Counters, error) {
	reset := 0
	answer, err := c.look(ctx, domain, entries, func(ctx context.Context, hits []limiter.Hit) error {
		if err := c.Store.Reset(ctx, hits); err != nil {
			return unavailable("resetting the counters, of which some may be reset", err)
		}
		reset = len(hits)
		if c.Announce == nil {
			return nil
		}
		if err := c.Announce(ctx); err != nil {
			return unavailable("the counters are reset, but the other servers could not be notified and may deny for LOCAL_CACHE_MAX_AGE", err)
		}
		return nil
	})
	answer.Reset = reset
	return answer, err
}

func unavailable(what string, err error) error {
	return Errorf(ErrUnavailable, "%s: %w", what, err)
}

// look does something to the counters of a descriptor, and then looks at them.
func (c *CounterReader) look(ctx context.Context, domain string, entries []limiter.Entry, do func(context.Context, []limiter.Hit) error) (Counters, error) {
	answer := Counters{Descriptor: newDescriptor(domain, entries), Limits: []Counter{}}
	tree := c.Rules()
	if tree == nil {
		return answer, Errorf(ErrUnavailable, "no rules are loaded yet")
	}
	rule, entries := named(tree, domain, entries)
	request := plan.Request{Domain: domain, Descriptors: []plan.Descriptor{{Entries: entries}}}
	var p plan.Result
	if err := c.planner.Prepare(&p, tree, &request); err != nil {
		return answer, Errorf(ErrBadRequest, "%w", err)
	}
	if rule == nil {
		return answer, nil
	}
	answer.Rule, answer.Place = rule.Way(), rule.Place()
	limits := c.limits(rule, p.Hits)
	// Several limits of a rule never have one counter, so there are as many as hits.
	if err := do(ctx, p.Hits); err != nil {
		return answer, err
	}
	c.multiply(p.Hits, domain, entries)
	held, err := c.Store.Peek(ctx, p.Hits)
	if err != nil {
		return answer, unavailable("looking at the counters", err)
	}
	for i, next := 0, 0; i < len(limits); i++ {
		if l := &limits[i]; !l.Unlimited && !l.Replaced {
			l.fill(p.Hits[next].Limit, held[next])
			next++
		}
		answer.Limits = append(answer.Limits, limits[i].Counter)
	}
	return answer, nil
}

// multiply multiplies the limits of hits if an exception does so for their descriptor.
func (c *CounterReader) multiply(hits []limiter.Hit, domain string, entries []limiter.Entry) {
	if c.Plan.Exceptions == nil {
		return
	}
	if e := c.Plan.Exceptions.Load().Find(domain, entries); e != nil && e.Effect == plan.Amount {
		for i := range hits {
			hits[i].Limit = hits[i].Limit.Times(e.Factor)
		}
	}
}

// named returns the rule of a descriptor, and its entries with one that names a hold, if
// the rule needs one: any does to find the counter.
func named(tree *descriptors.Tree, domain string, entries []limiter.Entry) (*descriptors.Rule, []limiter.Entry) {
	rule, hold := tree.MatchHold(domain, entries)
	switch {
	case rule == nil || rule.Hold == "" || hold >= 0 && entries[hold].Value != "":
		return rule, entries
	case hold >= 0:
		entries = slices.Delete(slices.Clone(entries), hold, hold+1)
	}
	return rule, append(slices.Clip(entries), limiter.Entry{Key: rule.Hold, Value: "any"})
}

// counterOf is a limit on its way to the answer.
type counterOf struct{ Counter }

// limits returns those of a rule and of those above that hold below, in the order of their
// hits. Those without hit are not counted.
func (c *CounterReader) limits(rule *descriptors.Rule, hits []limiter.Hit) (limits []counterOf) {
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			one := counterOf{Counter{Rule: r.Way(), Place: r.Place(), Limit: l.Series.Labels().Limit, Unlimited: l.Unlimited}}
			if !l.Unlimited {
				one.Rate, one.Mode = l.Rate(), descriptors.ModeWord(c.Plan.DecidingMode(l))
				one.Replaced = len(hits) == 0 || hits[0].Limit != l
			}
			if !l.Unlimited && !one.Replaced {
				one.Shared = r.Shared()
				if c.ShowKeys {
					one.Key = limiter.KeyText(hits[0].Key)
				}
				hits = hits[1:]
			}
			limits = append(limits, one)
		}
	}
	return limits
}

// fill fills in what a counter holds.
func (c *counterOf) fill(l *limiter.Limit, holds limiter.Counter) {
	c.Rate = l.Rate() // of an exception, if one multiplies it
	c.Amount, c.Used, c.Remaining = l.Size(), uint64(holds.Used), uint64(holds.Remaining)
	if holds.RetryAfter != limiter.Never {
		c.RetryAfter = new(holds.RetryAfter.Seconds())
	}
	c.WholeIn, c.BannedFor = holds.WholeIn.Seconds(), holds.BannedFor.Seconds()
}

// newDescriptor echoes what was asked for.
func newDescriptor(domain string, entries []limiter.Entry) Descriptor {
	texts := make([]KeyValue, len(entries))
	for i, e := range entries {
		texts[i] = KeyValue(e)
	}
	return NewDescriptor(domain, texts)
}

// Entries returns the domain and entries that d holds.
func Entries(d Descriptor) (domain string, entries []limiter.Entry, err error) {
	domain, texts, err := d.Bytes()
	if err != nil {
		return "", nil, err
	}
	for _, t := range texts {
		entries = append(entries, limiter.Entry(t))
	}
	if len(entries) == 0 {
		return "", nil, Errorf(ErrBadRequest, "the descriptor has no entries")
	}
	return domain, entries, nil
}
