package operators

import (
	"context"
	"log/slog"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Counters is the answer of POST /peek and POST /reset: the rule of a descriptor, and the
// counters of its limits.
type Counters struct {
	Descriptor
	Rule      string     `json:"rule"` // the keys and values that lead to it, "" if no rule matches
	Location  string     `json:"location,omitempty"`
	Exception *Exception `json:"exception,omitempty"` // that applies to the descriptor
	Limits    []Counter  `json:"limits"`
	Reset     int        `json:"reset,omitempty"` // how many counters POST /reset has set to zero
}

// Counter is a limit and what is used of it.
type Counter struct {
	Rule     string `json:"rule"` // that has the limit: that of the descriptor, or one above
	Location string `json:"location,omitempty"`
	Limit    string `json:"limit"` // its name, or how it counts
	Rate     string `json:"rate"`  // such as "5 per minute"
	Mode     string `json:"mode,omitempty"`
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
	// Remaining, RetryAfter and ResetAfter are of the limit, also while an exception admits or
	// denies everything. RetryAfter is in how many seconds one more is admitted: 0 now, nil never.
	RetryAfter *float64 `json:"retry_after"`
	ResetAfter float64  `json:"reset_after"`          // seconds until nothing of it is used any more, 0 if nothing is used
	BannedFor  float64  `json:"banned_for,omitempty"` // seconds that deny_for still lasts, 0 without a ban
	Key        string   `json:"key,omitempty"`        // of the counter in Redis, as text
}

// Peek returns what is used of the limits of a descriptor: of its rule, and of those above.
// It counts nothing.
func (d *Desk) Peek(ctx context.Context, of Descriptor) (Counters, error) {
	answer, rule, hits, err := d.find(of)
	if err == nil && rule != nil {
		answer.Limits, err = d.counters(ctx, rule, hits, answer.Exception)
	}
	return answer, err
}

// Reset sets the counters of a descriptor to zero, without bans and holds, and returns them
// as they are then. Other servers may go on to deny for another second. It logs who wanted
// it: by is what they say themselves, peer who they are. The log does not show all of a long
// descriptor, and digests where no value is to be readable.
func (d *Desk) Reset(ctx context.Context, of Descriptor, by, peer string) (Counters, error) {
	answer, rule, hits, err := d.find(of)
	if err != nil || rule == nil {
		return answer, err
	}
	if err = d.Store.Reset(ctx, hits); err != nil {
		err = Errorf(ErrUnavailable, "resetting the counters (some may be reset already): %w", err)
	} else {
		answer.Reset = len(hits)
		answer.Limits, err = d.counters(ctx, rule, hits, answer.Exception)
	}
	domain, entries, _ := answer.Bytes() // which are ours
	asked := Asked{Domain: domain, Entries: entries, Hashed: d.Plan.Keys.DigestsValues()}
	shown := asked.Excerpt(logText)
	text, _ := shown.Spell()
	attrs := []slog.Attr{
		slog.Bool("audit", true), slog.String("by", Begin(by, keptValue)), slog.String("peer", peer),
		slog.String("domain", shown.Domain), slog.String("descriptor", text), slog.String("rule", answer.Rule), slog.Int("counters", answer.Reset),
	}
	if err != nil {
		d.Logger.LogAttrs(ctx, slog.LevelWarn, "counters not reset everywhere", append(attrs, slog.Any("err", err))...)
	} else {
		d.Logger.LogAttrs(ctx, slog.LevelInfo, "counters reset", attrs...)
	}
	return answer, err
}

// find returns the rule of a descriptor, nil if there is none, and the hits of its counters.
// It asks the code that serves: plan makes the hits.
func (d *Desk) find(of Descriptor) (Counters, *descriptors.Rule, []limiter.Hit, error) {
	domain, entries, err := of.Bytes()
	if err == nil && len(entries) == 0 {
		err = Errorf(ErrBadRequest, "the descriptor has no entries")
	}
	if err != nil {
		return Counters{}, nil, nil, err
	}
	answer := Counters{Descriptor: NewDescriptor(domain, entries), Limits: []Counter{}}
	tree := d.Tree()
	if tree == nil {
		return answer, nil, nil, Errorf(ErrUnavailable, "no rules are loaded yet")
	}
	rule, entries, counted := named(tree, domain, entries)
	if e := d.Plan.Exceptions.Load().Find(domain, counted); e != nil {
		answer.Exception = new(exceptionOf(e))
	}
	if rule != nil {
		answer.Rule, answer.Location = rule.Way(), rule.Place()
	}
	options := d.Plan
	options.Exceptions = nil // one may be in the place of limits, whose counters are still there
	var p plan.Plan
	if err := plan.New(options).Prepare(&p, tree, &plan.Request{Domain: domain, Descriptors: []plan.Descriptor{{Entries: entries}}}); err != nil {
		return answer, nil, nil, Errorf(ErrBadRequest, "%w", err)
	}
	return answer, rule, p.Hits, nil
}

// named returns the rule of a descriptor, its entries with one that names a hold, if the rule
// needs one: any does to find the counter. And it returns the entries as they are counted.
func named(tree *descriptors.Tree, domain string, entries []limiter.Entry) (rule *descriptors.Rule, with, counted []limiter.Entry) {
	work := descriptors.MaxWork
	rule, holdEntry, counted := tree.MatchHold(domain, entries, &work)
	switch {
	case rule == nil || rule.Hold == "" || holdEntry >= 0 && entries[holdEntry].Value != "":
		return rule, entries, counted
	case holdEntry >= 0:
		entries = slices.Delete(slices.Clone(entries), holdEntry, holdEntry+1)
	}
	return rule, append(slices.Clip(entries), limiter.Entry{Key: rule.Hold, Value: "any"}), counted
}

// counters returns those of a rule and of those above that hold below, with what the counters
// of hits hold, which have the same order. Limits without hit are not counted.
func (d *Desk) counters(ctx context.Context, rule *descriptors.Rule, hits []limiter.Hit, x *Exception) ([]Counter, error) {
	asked := slices.Clone(hits)
	if x != nil && x.Effect == plan.Amount {
		for i := range asked {
			asked[i].Limit = asked[i].Limit.Times(x.Factor)
		}
	}
	held, err := d.Store.Peek(ctx, asked)
	if err != nil {
		return []Counter{}, Errorf(ErrUnavailable, "reading the counters: %w", err)
	}
	list, n := []Counter{}, 0
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			c := Counter{Rule: r.Way(), Location: r.Place(), Limit: l.Series.Labels().Limit, Unlimited: l.Unlimited}
			if !l.Unlimited {
				c.Rate, c.Mode = l.Rate(), descriptors.ModeWord(d.Plan.DecidingMode(l))
				c.Replaced = n == len(hits) || hits[n].Limit != l
			}
			if !l.Unlimited && !c.Replaced {
				l, holds := asked[n].Limit, held[n]
				c.Rate, c.Shared = l.Rate(), r.Shared()
				c.Amount, c.Used, c.Remaining = l.Size(), uint64(holds.Used), uint64(holds.Remaining)
				c.RetryAfter, c.ResetAfter, c.BannedFor = seconds(holds.RetryAfter), holds.WholeIn.Seconds(), holds.BannedFor.Seconds()
				if d.Servers != nil {
					c.Key = plaintext.RedisKey(hits[n].Key)
				}
				n++
			}
			list = append(list, c)
		}
	}
	return list, nil
}
