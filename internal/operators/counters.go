package operators

import (
	"cmp"
	"context"
	"hash/crc32"
	"log/slog"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Counters is the response to POST /peek and POST /reset: the counters of a descriptor.
type Counters struct {
	plan.JSONDescriptor
	Rule string `json:"rule"` // keys and values of the rule without the domain, or "" if no rule matches
	explain.Path
	Exception *plan.Exception `json:"exception,omitempty"` // the exception that applies to the descriptor
	Limits    []Counter       `json:"limits"`
	Reset     int             `json:"reset,omitempty"` // number of counters that POST /reset set to zero

	// The answer of POST /peek has the denials of the last hour, the newest first: in Denials the descriptor's, in
	// Longer those of some longer descriptors that begin with it, in Beside those of others in the same requests.
	Denials []LastDenial `json:"denials,omitempty"`
	Longer  []LastDenial `json:"longer,omitempty"`
	Beside  []LastDenial `json:"beside,omitempty"`
	Servers int          `json:"servers,omitempty"` // number of servers that counted the denials

	counted []limiter.Entry // the entries as they are counted, without the entry that names a hold
	shown   map[string]bool // set of the excerpts by which denials may show the descriptor
	sums    []uint32        // CRC-32 of the keys of the descriptor's counters
	sent    bool            // the last request sent a limit, which replaces the limits of Rule
}

// Counter is the state of a limit's counter.
type Counter struct {
	Rule     string `json:"rule"` // the rule that has the limit: the descriptor's rule, or a rule above it
	Location string `json:"location,omitempty"`
	Limit    string `json:"limit"` // name of the limit or, if it has none, its unit and algorithm
	Rate     string `json:"rate"`  // such as "5 per minute"
	// Assigned is the amount that is assigned to the limit for the descriptor, or nil. If it
	// is not nil, Own is the rate in the rule.
	Assigned *Assignment `json:"assigned,omitempty"`
	Own      string      `json:"own,omitempty"`
	Mode     string      `json:"mode,omitempty"`
	Grouped  bool        `json:"grouped,omitempty"` // whether the limit is in a group of quotas, see limiter.Hit.Group
	// Shared lists the patterns of the rule, such as wildcards, whose values share the counter.
	Shared []string `json:"shared,omitempty"`
	// Unlimited reports whether the limit admits everything, Replaced whether another limit
	// replaces it. In both cases nothing is counted, and the fields below are zero.
	Unlimited bool `json:"unlimited,omitempty"`
	Replaced  bool `json:"replaced,omitempty"`
	// Amount is the size of the limit in units, Used the part in use, and Remaining the part left.
	Amount    uint64 `json:"amount"`
	Used      uint64 `json:"used"`
	Remaining uint64 `json:"remaining"`
	// Remaining, RetryAfter and ResetAfter ignore an exception that admits or denies everything.
	// RetryAfter is the time in seconds until one more unit is admitted, or nil if that never happens.
	RetryAfter *float64 `json:"retry_after"`
	ResetAfter float64  `json:"reset_after"`          // seconds until Used is 0 and no ban is left
	BannedFor  float64  `json:"banned_for,omitempty"` // seconds until the ban by deny_for ends, or 0 without a ban
	Key        string   `json:"key,omitempty"`        // key in Redis, as text
}

// Look returns the answer of Peek with the denials of the last hour on this server or on all servers. If Look
// fails, its answer may be incomplete.
func (d *Desk) Look(ctx context.Context, of plan.JSONDescriptor, all bool) (Counters, error) {
	answer, err := d.Peek(ctx, of)
	if answer.shown == nil {
		return answer, err
	}
	known, problem := d.Denials(ctx, all)
	domain, entries := of.Bytes()
	answer.Servers = known.Servers
	for _, l := range known.Last {
		switch id := l.Domain + l.Descriptor.id(); {
		case answer.shown[id] || l.Rule == "exception" && answer.shown["exception"+id]:
			answer.Denials = append(answer.Denials, l)
		case l.Domain == domain && len(answer.Longer) < maxKeys && l.Descriptor.extends(entries):
			answer.Longer = append(answer.Longer, l)
		case !l.Shadow && len(answer.Beside) < maxKeys && slices.ContainsFunc(l.Beside, func(sum uint32) bool { return slices.Contains(answer.sums, sum) }):
			answer.Beside = append(answer.Beside, l)
		}
	}
	return answer, cmp.Or(err, problem)
}

// show sets a.shown to the excerpts by which denials, by limits of res or exceptions, may show the descriptor of r.
func (a *Counters) show(r *plan.Request, res *plan.Result, hashed bool) {
	a.shown = map[string]bool{}
	add := func(rule string, asked Asked) {
		asked.Domain, asked.Hashed = r.Domain, hashed
		x := asked.Excerpt(keySize)
		a.shown[rule+x.Domain+x.id()] = true
	}
	for o := range res.Outcomes(r) {
		if o.Hit != nil {
			add("", Asked{Entries: o.Counted, Patterns: o.Patterns, Key: o.Hit.Key})
			a.sums = append(a.sums, crc32.ChecksumIEEE(o.Hit.Key))
		}
	}
	for n := range a.counted { // exceptions apply to the first entries
		add("exception", Asked{Entries: a.counted[:n+1]})
	}
}

// Peek returns the counters of a descriptor. They belong to the limits of its rule and of the rules above
// that also apply. Peek counts nothing.
func (d *Desk) Peek(ctx context.Context, of plan.JSONDescriptor) (Counters, error) {
	answer, rule, hits, err := d.find(of)
	if err == nil && rule != nil {
		answer.Limits, err = d.counters(ctx, rule, hits, &answer)
	}
	return answer, err
}

// Reset sets the counters of a descriptor to zero, removes their bans and holds, and returns the new state.
// Other servers may still deny for a second. The audit log gets the parameters by, a name that the caller
// chose, and peer, an address. It also gets an excerpt of the descriptor, with digests instead of values if
// keys have digests.
func (d *Desk) Reset(ctx context.Context, of plan.JSONDescriptor, by, peer string) (Counters, error) {
	answer, rule, hits, err := d.find(of)
	if err != nil || rule == nil {
		return answer, err
	}
	if err = d.Store.Reset(ctx, hits); err != nil {
		err = Errorf(ErrUnavailable, "resetting the counters (some may be reset already): %w", err)
	} else {
		answer.Reset = len(hits)
		answer.Limits, err = d.counters(ctx, rule, hits, &answer)
	}
	domain, entries := answer.Bytes()
	asked := Asked{Domain: domain, Entries: entries, Hashed: d.Plan.Keys.Digests}
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

// find returns the rule of a descriptor, or nil if no rule matches, and a hit for each counter of the
// descriptor. Package plan makes the hits, in the same way as for requests.
func (d *Desk) find(of plan.JSONDescriptor) (Counters, *descriptors.Rule, []limiter.Hit, error) {
	domain, entries := of.Bytes()
	if len(entries) == 0 {
		return Counters{}, nil, nil, Errorf(ErrBadRequest, "the descriptor has no entries")
	}
	answer := Counters{JSONDescriptor: plan.NewJSONDescriptor(domain, entries), Limits: []Counter{}}
	tree := d.Tree()
	if tree == nil {
		return answer, nil, nil, Errorf(ErrUnavailable, "no rules are loaded yet")
	}
	path, end := explain.Find(tree, domain, entries)
	answer.Path = path
	rule, entries, counted := named(tree, domain, entries)
	answer.counted = counted
	if e := d.Plan.Exceptions.Load().Find(domain, counted); e != nil {
		answer.Exception = new(e.Now())
	}
	if end = cmp.Or(rule, end); end != nil { // a rule with quota_service has no hits
		answer.Rule = end.Way()
	}
	asked := d.Spending.sent.of(domain, entries, counted)
	answer.sent = asked.HasOverride
	options := d.Plan
	options.Exceptions = nil // an exception may replace limits, whose counters still exist
	var res plan.Result
	request := plan.Request{Domain: domain, Descriptors: []plan.Descriptor{asked}}
	if err := plan.New(options).Prepare(&res.Plan, tree, &request); err != nil {
		return answer, nil, nil, Errorf(ErrBadRequest, "%w", err)
	}
	res.Decisions = make([]limiter.Decision, len(res.Plan.Hits))
	answer.show(&request, &res, d.Plan.Keys.Digests)
	return answer, rule, res.Plan.Hits, nil
}

// named returns the rule of a descriptor, or nil if there is none, the descriptor's entries, and the entries
// as they are counted. If the rule needs an entry that names a hold and the descriptor has none, named adds
// one to the second result. The entry's value does not matter, because any name leads to the same counter.
func named(tree *descriptors.Tree, domain string, entries []limiter.Entry) (rule *descriptors.Rule, with, counted []limiter.Entry) {
	rule, holdEntry, counted := tree.MatchCounted(domain, entries)
	switch {
	case rule == nil || rule.Hold == "" || holdEntry >= 0 && entries[holdEntry].Value != "":
		return rule, entries, counted
	case holdEntry >= 0:
		entries = slices.Delete(slices.Clone(entries), holdEntry, holdEntry+1)
	}
	return rule, append(slices.Clip(entries), limiter.Entry{Key: rule.Hold, Value: "any"}), counted
}

// counters returns the limits of a rule and of the rules above it, with the counters of hits, which must be
// in the same order. A limit without a hit is not counted.
func (d *Desk) counters(ctx context.Context, rule *descriptors.Rule, hits []limiter.Hit, of *Counters) ([]Counter, error) {
	asked := slices.Clone(hits)
	domain, _ := of.Bytes()
	for i := range asked {
		asked[i].Limit = of.Exception.Times(asked[i].Limit)
	}
	states, err := d.Store.Peek(ctx, asked)
	if err != nil {
		return []Counter{}, Errorf(ErrUnavailable, "reading the counters: %w", err)
	}
	list, n := []Counter{}, 0
	add := func(c Counter, l, of *limiter.Limit, shared []string) { // of is the limit in the rule
		c.Limit, c.Unlimited = l.Series.Labels().Limit, l.Unlimited
		if !l.Unlimited {
			c.Rate, c.Mode = l.Rate(), descriptors.ModeWord(d.Plan.DecidingMode(l))
			c.Replaced = n == len(hits) || !plan.IsHitOn(&hits[n], of)
		}
		if !l.Unlimited && !c.Replaced {
			l, state := asked[n].Limit, states[n]
			c.Rate, c.Shared, c.Grouped = l.Rate(), shared, hits[n].Group > 0
			c.Amount, c.Used, c.Remaining = l.Size(), uint64(state.Used), uint64(state.Remaining)
			c.RetryAfter, c.ResetAfter, c.BannedFor = seconds(state.RetryAfter), state.WholeIn.Seconds(), state.BannedFor.Seconds()
			if d.Servers != nil {
				c.Key = plaintext.RedisKey(hits[n].Key)
			}
			n++
		}
		list = append(list, c)
	}
	if of.sent {
		sent := Counter{Rule: "override"}
		if rule.Override != nil {
			sent.Rule, sent.Location = rule.Way(), rule.Location()
		}
		for n < len(hits) && hits[n].Limit.Series.Labels().Limit == "override" {
			add(sent, hits[n].Limit, hits[n].Limit, nil)
		}
		rule = rule.Passed(len(of.counted))
	}
	for r := rule; r != nil; r = r.Above {
		for _, l := range r.Limits {
			counted := r.Counted(of.counted)
			c := Counter{Rule: r.Way(), Location: r.Location()}
			if c.Assigned = d.assigned(domain, counted, l.Name); c.Assigned != nil {
				c.Own = l.Rate()
			}
			add(c, d.Plan.Assigned.Limit(r, domain, counted, l), l, r.Shared())
		}
	}
	return list, nil
}
