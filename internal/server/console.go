package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/offline/explain"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
	"weir/internal/telemetry"
)

// newConsole returns the console of a.
func newConsole(a *App) *console.Console {
	w := &watched{App: a}
	w.limits.take, w.store.take = a.usage.Outcomes, a.storeMetrics
	return console.New(console.Server{
		Status:  func() api.Status { return a.status().API() },
		History: a.rates.history, Denials: a.denialsOf, Rules: w.busiestRules, Store: w.storeFigures, Loads: a.rules.lastLoads,
		Explain: a.explain, Peek: a.peek, Reset: a.reset,
		Exceptions: a.exceptionsOf, AddException: a.addException, RemoveException: a.exceptions.Remove,
	}, a.access)
}

// watched is what is looked at again and again while somebody has the console open.
type watched struct {
	*App
	limits lately[map[limiter.Series]telemetry.Outcome]
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

// busiestRules returns the busiest of the rules that contain filter.
func (w *watched) busiestRules(filter string) console.Rules {
	tree := w.rules.tree.Load()
	if tree == nil {
		return console.Rules{}
	}
	now, before, over := w.limits.look(time.Now())
	rates := make(map[limiter.Series]console.Rate)
	for series, n := range now {
		if was := before[series]; n.Asked > was.Asked && over > 0 {
			rates[series] = console.Rate{Asked: perSecond(n.Asked, was.Asked, over), Over: perSecond(n.Over, was.Over, over)}
		}
	}
	matching := w.find(tree, filter)
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
func (w *watched) find(tree *descriptors.Tree, filter string) []*descriptors.Rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found.tree != tree || w.found.filter != filter {
		w.found = found{tree: tree, filter: filter}
		lower := strings.ToLower(filter)
		for r := range tree.All() {
			if filter == "" || strings.Contains(strings.ToLower(r.String()), lower) {
				w.found.rules = append(w.found.rules, r)
			}
		}
	}
	return w.found.rules
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

// explain explains what becomes of a descriptor by the rules that serve.
func (a *App) explain(d api.Descriptor) (explain.Answer, error) {
	domain, entries, err := api.Entries(d)
	if err != nil {
		return explain.Answer{}, err
	}
	tree := a.rules.tree.Load()
	if tree == nil {
		return explain.Answer{}, errors.New("no rules are loaded yet")
	}
	return explain.Explain(explain.Question{
		Options: a.counters.Plan, Tree: tree, Failure: FailureMode(a.opts.Settings.Failure.Mode), Domain: domain, Descriptor: entries,
	})
}

// lastLoads returns what became of the last loads, the newest first.
func (r *rules) lastLoads() []console.Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.loads)
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

// storeFigures returns how the store does.
func (w *watched) storeFigures() (list []console.Figure) {
	now, before, over := w.store.look(time.Now())
	add := func(name, format string, values ...any) {
		list = append(list, console.Figure{Name: name, Value: fmt.Sprintf(format, values...)})
	}
	grown := func(name string) float64 { return now[name] - before[name] }
	if counters, inMemory := now["weir_memory_counters"]; inMemory {
		add("Counters", "%.0f of at most %d", counters, w.opts.Settings.Store.MemoryMaxCounters)
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
