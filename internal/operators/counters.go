package operators

import (
	"context"
	"log/slog"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Counters is the answer of POST /peek and POST /reset: the rule of a descriptor, and the
// counters of its limits.
type Counters struct {
	Descriptor
	Rule      string     `json:"rule"` // the keys and values that lead to it, "" if no rule matches
	Place     string     `json:"place,omitempty"`
	Exception *Exception `json:"exception,omitempty"` // that applies to the descriptor
	Limits    []Counter  `json:"limits"`
	// Reset is how many counters POST /reset has set to zero.
	Reset int `json:"reset,omitempty"`
}

// Counter is a limit and what is used of it.
type Counter struct {
	Rule  string `json:"rule"` // that has the limit: that of the descriptor, or one above
	Place string `json:"place,omitempty"`
	Limit string `json:"limit"` // its name, or how it counts
	Rate  string `json:"rate"`  // such as "5 per minute"
	Mode  string `json:"mode,omitempty"`
	// Shared are the wildcards and the like of the rule whose values all share the counter.
	Shared []string `json:"shared,omitempty"`
	// Unlimited reports whether it admits everything, Replaced whether another limit of the
	// rule replaces it. Then nothing is counted, and what follows is zero.
	Unlimited bool `json:"unlimited,omitempty"`
	Replaced  bool `json:"replaced,omitempty"`
	// Amount is what it admits, Used what is used of it, Remaining what it still admits, each
	// in units of hits_addend.
	Amount    uint64 `json:"amount"`
	Used      uint64 `json:"used"`
	Remaining uint64 `json:"remaining"`
	// Remaining, RetryAfter and WholeIn are of the limit, also while an exception admits or
	// denies everything. RetryAfter is in how many seconds one more is admitted: 0 now, nil never.
	RetryAfter *float64 `json:"retry_after"`
	// WholeIn is in how many seconds nothing of it is used any more, 0 if nothing is used.
	WholeIn float64 `json:"whole_in"`
	// BannedFor is how many seconds deny_for still lasts, 0 without a ban.
	BannedFor float64 `json:"banned_for,omitempty"`
	Key       string  `json:"key,omitempty"` // of the counter in Redis, as text
}

// Peek returns what is used of the limits of a descriptor: of its rule, and of those above.
// It counts nothing.
func (d *Desk) Peek(ctx context.Context, of Descriptor) (Counters, error) {
	answer, hits, err := d.find(of)
	if err == nil {
		err = d.read(ctx, &answer, hits)
	}
	return answer, err
}

// Reset sets the counters of a descriptor to zero, without bans and holds, and returns them
// as they are then. Other servers may go on to deny for another second. It logs who wanted
// it: by is what they say themselves, peer who they are.
func (d *Desk) Reset(ctx context.Context, of Descriptor, by, peer string) (Counters, error) {
	answer, hits, err := d.find(of)
	if err != nil || answer.Rule == "" {
		return answer, err
	}
	if err = d.Store.Reset(ctx, hits); err != nil {
		err = unavailable("resetting the counters (some may be reset already)", err)
	} else {
		answer.Reset = len(hits)
		err = d.read(ctx, &answer, hits)
	}
	d.logReset(ctx, answer, by, peer, err)
	return answer, err
}

// shownText bounds the text of a descriptor in the log, in bytes.
const shownText = 1024

// logReset logs a reset. Of the descriptor it shows not too much, and digests where no value
// is to be readable.
func (d *Desk) logReset(ctx context.Context, c Counters, by, peer string, err error) {
	domain, entries, _ := c.Bytes() // which have been read
	asked := Asked{Domain: domain, Entries: entries, Hashed: d.Plan.Keys.DigestsValues()}
	shown := asked.Excerpt(shownText)
	text, _ := shown.Spell()
	attrs := []slog.Attr{
		slog.Bool("audit", true), slog.String("by", Begin(by, MaxValue)), slog.String("peer", peer),
		slog.String("domain", shown.Domain), slog.String("descriptor", text), slog.String("rule", c.Rule), slog.Int("counters", c.Reset),
	}
	if err != nil {
		d.Logger.LogAttrs(ctx, slog.LevelWarn, "counters not reset everywhere", append(attrs, slog.Any("err", err))...)
		return
	}
	d.Logger.LogAttrs(ctx, slog.LevelInfo, "counters reset", attrs...)
}

func unavailable(what string, err error) error {
	return Errorf(ErrUnavailable, "%s: %w", what, err)
}

// find returns the rule of a descriptor with its limits, and the hits of their counters. It
// asks the code that serves: plan makes the hits.
func (d *Desk) find(of Descriptor) (Counters, []limiter.Hit, error) {
	domain, entries, err := of.Bytes()
	if err == nil && len(entries) == 0 {
		err = Errorf(ErrBadRequest, "the descriptor has no entries")
	}
	if err != nil {
		return Counters{}, nil, err
	}
	answer := Counters{Descriptor: NewDescriptor(domain, entries), Limits: []Counter{}}
	if e := d.Plan.Exceptions.Load().Find(domain, entries); e != nil {
		answer.Exception = new(exceptionOf(e))
	}
	tree := d.Tree()
	if tree == nil {
		return answer, nil, Errorf(ErrUnavailable, "no rules are loaded yet")
	}
	rule, entries := named(tree, domain, entries)
	options := d.Plan
	options.Exceptions = nil // one may be in the place of limits, whose counters are still there
	var p plan.Result
	if err := plan.New(options).Prepare(&p, tree, &plan.Request{Domain: domain, Descriptors: []plan.Descriptor{{Entries: entries}}}); err != nil {
		return answer, nil, Errorf(ErrBadRequest, "%w", err)
	}
	if rule != nil {
		answer.Rule, answer.Place = rule.Way(), rule.Place()
		answer.Limits = append(answer.Limits, d.counters(rule, p.Hits)...)
	}
	return answer, p.Hits, nil
}

// read fills in what the counters of hits hold.
func (d *Desk) read(ctx context.Context, answer *Counters, hits []limiter.Hit) error {
	if x := answer.Exception; x != nil && x.Effect == Amount {
		for i := range hits {
			hits[i].Limit = hits[i].Limit.Times(x.Factor)
		}
	}
	held, err := d.Store.Peek(ctx, hits)
	if err != nil {
		return unavailable("reading the counters", err)
	}
	for i, next := 0, 0; i < len(answer.Limits); i++ {
		if c := &answer.Limits[i]; !c.Unlimited && !c.Replaced {
			c.fill(hits[next].Limit, held[next])
			next++
		}
	}
	return nil
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

// counters returns those of a rule and of those above that hold below, in the order of their
// hits, without what they hold. Those without hit are not counted.
func (d *Desk) counters(rule *descriptors.Rule, hits []limiter.Hit) (list []Counter) {
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			c := Counter{Rule: r.Way(), Place: r.Place(), Limit: l.Series.Labels().Limit, Unlimited: l.Unlimited}
			if !l.Unlimited {
				c.Rate, c.Mode = l.Rate(), descriptors.ModeWord(d.Plan.DecidingMode(l))
				c.Replaced = len(hits) == 0 || hits[0].Limit != l
			}
			if !l.Unlimited && !c.Replaced {
				c.Shared = r.Shared()
				if d.Servers != nil {
					c.Key = limiter.KeyText(hits[0].Key)
				}
				hits = hits[1:]
			}
			list = append(list, c)
		}
	}
	return list
}

// fill fills in what a counter holds.
func (c *Counter) fill(l *limiter.Limit, holds limiter.Counter) {
	c.Rate = l.Rate() // of an exception, if one multiplies it
	c.Amount, c.Used, c.Remaining = l.Size(), uint64(holds.Used), uint64(holds.Remaining)
	if holds.RetryAfter != limiter.Never {
		c.RetryAfter = new(holds.RetryAfter.Seconds())
	}
	c.WholeIn, c.BannedFor = holds.WholeIn.Seconds(), holds.BannedFor.Seconds()
}
