package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/telemetry"
)

const (
	maxRules  = 200 // on a page
	openRules = 30  // shown without a click
)

// rulesPage is the data of the page Rules.
type rulesPage struct {
	Filter string
	// Numbers of rules: the busiest, which are on the page, those that contain Filter, and all.
	Shown, Matching, All int
	Interval             time.Duration // interval of the rates, or 0 if they are not known yet
	Tree                 []*branch     // one branch for each domain
}

// branch is a domain, or a key and value below a domain, with the branches below it.
type branch struct {
	ID, Name string // stable ID and text of the element on the page
	*descriptors.Rule
	*rates
	Below []*branch
	Sum   demand // of the rule and all branches below
	Open  bool
}

// Link returns a descriptor that leads to the rule.
func (b *branch) Link() shown { return spell(b.Entries()) }

// demand has the requested units per second, and the units per second that exceeded the limit.
type demand struct{ Asked, Over float64 }

// rules returns the page of the busiest rules that contain the filter.
func (c *console) rules(r *http.Request) (any, error) {
	page, tree := rulesPage{Filter: r.Form.Get("filter")}, c.Tree()
	if tree == nil {
		return page, nil
	}
	var rules []*descriptors.Rule
	lower := strings.ToLower(page.Filter)
	for r := range tree.All() {
		if lower == "" || strings.Contains(strings.ToLower(r.String()), lower) {
			rules = append(rules, r)
		}
	}
	rates := new(rates)
	rates.now, rates.before, rates.interval = c.outcomes.sample(time.Now())
	page.Matching, page.All, page.Interval = len(rules), tree.Rules(), rates.interval
	rules = rates.most(rules)
	page.Shown, page.Tree = len(rules), growTree(rules, rates)
	return page, nil
}

// rates has the outcomes of all limits now and some time ago, from which it computes rates.
type rates struct {
	now, before map[limiter.Series]telemetry.Outcome
	interval    time.Duration
}

// Known reports whether there are rates yet.
func (r *rates) Known() bool { return r.interval > 0 }

// Of returns the rates of a limit, or 0 if its sums have not grown, as after a restart.
func (r *rates) Of(l *limiter.Limit) demand {
	now, was := r.now[l.Series], r.before[l.Series]
	if now.Asked <= was.Asked || !r.Known() {
		return demand{}
	}
	return demand{float64(now.Asked-was.Asked) / r.interval.Seconds(), float64(now.Over-min(now.Over, was.Over)) / r.interval.Seconds()}
}

// ofRule returns the highest rates of the rule's limits, because a request counts for all of them.
func (r *rates) ofRule(rule *descriptors.Rule) (most demand) {
	for _, l := range rule.Limits {
		rate := r.Of(l)
		most = demand{max(most.Asked, rate.Asked), max(most.Over, rate.Over)}
	}
	return most
}

// most returns the maxRules busiest rules in the order of rules. It may modify the slice rules.
func (r *rates) most(rules []*descriptors.Rule) []*descriptors.Rule {
	if len(rules) <= maxRules {
		return rules
	}
	asked := make(map[*descriptors.Rule]float64, len(rules))
	for _, rule := range rules {
		asked[rule] = r.ofRule(rule).Asked
	}
	order := slices.Clone(rules)
	slices.SortStableFunc(order, func(a, b *descriptors.Rule) int { return cmp.Compare(asked[b], asked[a]) })
	return slices.DeleteFunc(rules, func(rule *descriptors.Rule) bool { return !slices.Contains(order[:maxRules], rule) })
}

// growTree returns a tree of rules for each domain. All branches are open if there are at most
// openRules rules, otherwise only the domains.
func growTree(rules []*descriptors.Rule, rates *rates) []*branch {
	root, byID := new(branch), map[string]*branch{}
	for _, r := range rules {
		at, rate, words := root, rates.ofRule(r), r.Words()
		for i, word := range words {
			id := "rule-" + url.PathEscape(strings.Join(words[:i+1], "\x00"))
			next := byID[id]
			if next == nil {
				next = &branch{ID: id, Name: word, rates: rates, Open: len(rules) <= openRules || i == 0}
				byID[id], at.Below = next, append(at.Below, next)
			}
			at = next
			at.Sum = demand{at.Sum.Asked + rate.Asked, at.Sum.Over + rate.Over}
		}
		at.Rule = r
	}
	return root.Below
}

// sampler compares a value with its value some seconds ago. It takes a sample only when sample is called.
type sampler[T any] struct {
	take func() T // returns the current value

	mu         sync.Mutex
	older, old sample[T]
}

type sample[T any] struct {
	at    time.Time
	value T
}

const (
	minAge = 5 * time.Second // minimum age of the older sample; if samples are frequent, the older sample is at most twice as old
	maxAge = time.Minute     // maximum age of a sample that is still compared
)

// sample returns the current value, an earlier one, and the interval between them, which is 0 if there
// is no earlier value that is at least a second old.
func (s *sampler[T]) sample(now time.Time) (current, before T, interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current = s.take()
	switch ago := now.Sub(s.old.at); {
	case ago >= maxAge: // or this is the first sample
		s.old = sample[T]{now, current}
		s.older = s.old
	case ago >= minAge:
		s.older, s.old = s.old, sample[T]{now, current}
	}
	if interval = now.Sub(s.older.at); interval < time.Second {
		interval = 0 // too short for a rate
	}
	return current, s.older.value, interval
}
