package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/adminapi"
	"weir/internal/console"
	"weir/internal/denials"
	"weir/internal/descriptors"
	"weir/internal/explain"
	"weir/internal/limiter"
	"weir/internal/usage"
)

// consoleServer is what the console asks of the server.
type consoleServer struct {
	*App
	limits lately[map[limiter.Series]usage.Outcome]
	store  lately[map[string]float64] // by name

	mu    sync.Mutex
	found found
}

// found are the rules that contain a filter.
type found struct {
	tree   *descriptors.Tree
	filter string
	rules  []*descriptors.Rule
}

func newConsoleServer(a *App) *consoleServer {
	c := &consoleServer{App: a}
	c.limits.take, c.store.take = a.usage.Outcomes, a.storeMetrics
	return c
}

// Status implements console.Server.
func (c *consoleServer) Status() adminapi.Status { return c.status().API() }

// History implements console.Server.
func (c *consoleServer) History() []adminapi.Rates { return c.rates.history() }

// Denials implements console.Server.
func (c *consoleServer) Denials(ctx context.Context, all bool) (denials.Summary, int, error) {
	return c.denialsOf(ctx, all)
}

// Peek implements console.Server.
func (c *consoleServer) Peek(ctx context.Context, d adminapi.Descriptor) (adminapi.Counters, error) {
	return c.peek(ctx, d)
}

// Reset implements console.Server.
func (c *consoleServer) Reset(ctx context.Context, d adminapi.Descriptor, by, peer string) (adminapi.Counters, error) {
	return c.reset(ctx, d, by, peer)
}

// Exceptions implements console.Server.
func (c *consoleServer) Exceptions(ctx context.Context, all bool) (adminapi.Exceptions, error) {
	return c.exceptionsOf(ctx, all)
}

// AddException implements console.Server.
func (c *consoleServer) AddException(ctx context.Context, e adminapi.NewException, peer string) (adminapi.Exception, error) {
	return c.addException(ctx, e, peer)
}

// RemoveException implements console.Server.
func (c *consoleServer) RemoveException(ctx context.Context, id, by, peer string) error {
	return c.removeException(ctx, id, by, peer)
}

// Rules implements console.Server.
func (c *consoleServer) Rules(filter string) console.Rules {
	tree := c.rules.tree.Load()
	if tree == nil {
		return console.Rules{}
	}
	now, before, over := c.limits.look(time.Now())
	rates := make(map[limiter.Series]console.Rate)
	for series, n := range now {
		if was := before[series]; n.Asked > was.Asked && over > 0 {
			rates[series] = console.Rate{Asked: perSecond(n.Asked, was.Asked, over), Over: perSecond(n.Over, was.Over, over)}
		}
	}
	matching := c.find(tree, filter)
	shown := make([]console.Rule, 0, console.MaxRules)
	for _, r := range busiest(matching, rates) {
		shown = append(shown, describeRule(r, rates))
	}
	return console.Rules{Rules: shown, Matching: len(matching), All: tree.Rules(), Over: over}
}

// perSecond is how fast a sum grew, 0 if it began anew.
func perSecond(now, before uint64, over time.Duration) float64 {
	return float64(now-min(now, before)) / over.Seconds()
}

// find returns the rules that contain filter, which it remembers: there may be many, and
// the page asks again and again.
func (c *consoleServer) find(tree *descriptors.Tree, filter string) []*descriptors.Rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found.tree != tree || c.found.filter != filter {
		c.found = found{tree: tree, filter: filter}
		lower := strings.ToLower(filter)
		for r := range tree.All() {
			if filter == "" || strings.Contains(strings.ToLower(r.String()), lower) {
				c.found.rules = append(c.found.rules, r)
			}
		}
	}
	return c.found.rules
}

// busiest returns console.MaxRules of the rules, those that are asked most, in the order
// in which they are.
func busiest(rules []*descriptors.Rule, rates map[limiter.Series]console.Rate) []*descriptors.Rule {
	if len(rules) <= console.MaxRules {
		return rules
	}
	type place struct {
		at    int
		asked float64
	}
	var busy, idle []place
	for i, r := range rules {
		if asked := rateOf(r, rates).Asked; asked > 0 {
			busy = append(busy, place{i, asked})
		} else if len(idle) < console.MaxRules {
			idle = append(idle, place{at: i})
		}
	}
	slices.SortStableFunc(busy, func(a, b place) int { return cmp.Compare(b.asked, a.asked) })
	busy = append(busy, idle...)[:console.MaxRules]
	slices.SortFunc(busy, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	list := make([]*descriptors.Rule, len(busy))
	for i, p := range busy {
		list[i] = rules[p.at]
	}
	return list
}

// rateOf returns the rate of the limit that is asked most, because a request asks all
// limits of a rule, and of the one that is over most.
func rateOf(r *descriptors.Rule, rates map[limiter.Series]console.Rate) (most console.Rate) {
	for _, l := range r.Limits {
		rate := rates[l.Series]
		most = console.Rate{Asked: max(most.Asked, rate.Asked), Over: max(most.Over, rate.Over)}
	}
	return most
}

func describeRule(r *descriptors.Rule, rates map[limiter.Series]console.Rate) console.Rule {
	rule := console.Rule{Words: r.Words(), Place: r.Place(), Rate: rateOf(r, rates)}
	rule.Domain, rule.Entries = r.Entries()
	for _, l := range r.Limits {
		limit := console.Limit{Name: l.Series.Labels().Limit, Amount: "unlimited", Rate: rates[l.Series]}
		if !l.Unlimited {
			limit.Amount = l.Rate()
		}
		if limit.Name == l.Per() || l.Unlimited { // which Amount says, too
			limit.Name = l.Name
		}
		if l.Mode != limiter.Enforced {
			limit.Mode = descriptors.ModeWord(l.Mode)
		}
		rule.Limits = append(rule.Limits, limit)
	}
	return rule
}

// Explain implements console.Server.
func (c *consoleServer) Explain(domain string, entries []limiter.Entry) (explain.Answer, error) {
	tree := c.rules.tree.Load()
	if tree == nil {
		return explain.Answer{}, errors.New("no rules are loaded yet")
	}
	return explain.Explain(explain.Question{
		Options: c.counters.Plan, Tree: tree, Failure: FailureMode(c.opts.Settings.Failure.Mode), Domain: domain, Descriptor: entries,
	})
}

// Loads implements console.Server.
func (c *consoleServer) Loads() []console.Load {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	return slices.Clone(c.rules.loads)
}

// mostLoads is how many loads are remembered.
const mostLoads = 10

// remember notes a load for the console. Those that fail alike again and again are one.
func (r *rules) remember(l console.Load) {
	l.At, l.Times = time.Now(), 1
	if len(r.loads) > 0 && l.Problems != "" && l.Problems == r.loads[0].Problems && l.Version == r.loads[0].Version {
		l.Times += r.loads[0].Times
		r.loads[0] = l
		return
	}
	r.loads = slices.Insert(r.loads, 0, l)[:min(len(r.loads)+1, mostLoads)]
}

// StoreDetails implements console.Server.
func (c *consoleServer) StoreDetails() (list []console.Figure) {
	now, before, over := c.store.look(time.Now())
	add := func(name, format string, values ...any) {
		list = append(list, console.Figure{Name: name, Value: fmt.Sprintf(format, values...)})
	}
	grown := func(name string) float64 { return now[name] - before[name] }
	if counters, inMemory := now["weir_memory_counters"]; inMemory {
		add("Counters", "%.0f of at most %d", counters, c.opts.Settings.Store.MemoryMaxCounters)
		add("Dropped because memory was full", "%.0f", now["weir_memory_evictions_total"])
	} else if calls := grown("weir_redis_calls_total"); calls > 0 && over > 0 {
		add("Calls", "%.1f a second", calls/over.Seconds())
		add("Requests in a call", "%.1f on average", grown("weir_redis_batch_requests")/calls)
		add("Latency of a call", "%.2f ms on average", 1000*grown("weir_redis_call_seconds")/calls)
	} else {
		add("Calls", "none lately")
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, kind, found := strings.Cut(name, "weir_redis_errors_total "); found && now[name] > 0 {
			add("Errors: "+kind, "%.0f", now[name])
		}
		if _, mode, found := strings.Cut(name, "weir_failure_mode_decisions_total "); found && now[name] > 0 {
			add("Decided by failure mode "+mode, "%.0f", now[name])
		}
	}
	return list
}

// storeMetrics returns the metrics of the store, of histograms the sums, by name and, behind
// a space, the values of their labels.
func (a *App) storeMetrics() map[string]float64 {
	byName := map[string]float64{}
	families, _ := a.storeRegistry.Gather() // what is there is shown
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			byName[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return byName
}

// lately keeps what was some seconds ago, while somebody asks.
type lately[T any] struct {
	take func() T

	mu     sync.Mutex
	seen   lookAt[T]   // last
	old    []lookAt[T] // to compare with, the oldest first
	forget *time.Timer
}

type lookAt[T any] struct {
	at   time.Time
	seen T
}

// How long ago the looks are that are compared, how often one is kept, for how long the
// last one serves others, and when all are forgotten.
const (
	lookBack    = 10 * time.Second
	lookEvery   = 5 * time.Second
	lookServes  = time.Second
	lookForgets = time.Minute
)

// look returns what is now, what was about ten seconds ago, and how long ago exactly: 0 if
// this is the first look.
func (l *lately[T]) look(now time.Time) (seen, before T, over time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget != nil {
		l.forget.Stop()
	}
	l.forget = time.AfterFunc(lookForgets, l.drop)
	if l.seen.at.IsZero() || now.Sub(l.seen.at) >= lookServes {
		l.seen = lookAt[T]{now, l.take()}
	}
	if n := len(l.old); n == 0 || now.Sub(l.old[n-1].at) >= lookEvery {
		l.old = append(l.old, l.seen)
	}
	for len(l.old) > 1 && now.Sub(l.old[1].at) >= lookBack {
		l.old = slices.Delete(l.old, 0, 1)
	}
	return l.seen.seen, l.old[0].seen, l.seen.at.Sub(l.old[0].at)
}

// drop forgets all.
func (l *lately[T]) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.old, l.seen = nil, lookAt[T]{}
}
