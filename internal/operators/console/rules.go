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
	maxRules  = 200 // of a page
	openRules = 30  // are shown without a click
)

// rulesPage is the page of the rules.
type rulesPage struct {
	Filter string
	// Shown is how many rules the page has: the busiest of those that contain the filter,
	// which are Matching of All.
	Shown, Matching, All int
	Over                 time.Duration // that the rates are of, 0 if that has just begun
	Tree                 []*branch     // one for each domain
}

// branch is a domain, or a key and value below one, with what is below that.
type branch struct {
	ID, Name string // of the element of the page, the same each time; to be shown
	*descriptors.Rule
	*rates
	Below []*branch
	Sum   demand // of the rule and of what is below
	Open  bool
}

// Link is a descriptor that leads to the rule.
func (b *branch) Link() shown { return spell(b.Entries()) }

// demand is how many units a second were asked for, and how many of those were over.
type demand struct{ Asked, Over float64 }

// rules returns the page of the rules that are asked most, of those that contain a filter.
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
	rates.now, rates.before, rates.over = c.outcomes.look(time.Now())
	page.Matching, page.All, page.Over = len(rules), tree.Rules(), rates.over
	rules = rates.most(rules)
	page.Shown, page.Tree = len(rules), growTree(rules, rates)
	return page, nil
}

// rates are those of limits.
type rates struct {
	now, before map[limiter.Series]telemetry.Outcome
	over        time.Duration
}

// Known reports whether there are any yet.
func (r *rates) Known() bool { return r.over > 0 }

// Of returns the rate of a limit, 0 if its sums restarted.
func (r *rates) Of(l *limiter.Limit) demand {
	now, was := r.now[l.Series], r.before[l.Series]
	if now.Asked <= was.Asked || !r.Known() {
		return demand{}
	}
	return demand{float64(now.Asked-was.Asked) / r.over.Seconds(), float64(now.Over-min(now.Over, was.Over)) / r.over.Seconds()}
}

// ofRule returns the rate of the limit that is asked most, because a request asks all
// limits of a rule, and of the one that is over most.
func (r *rates) ofRule(rule *descriptors.Rule) (most demand) {
	for _, l := range rule.Limits {
		rate := r.Of(l)
		most = demand{max(most.Asked, rate.Asked), max(most.Over, rate.Over)}
	}
	return most
}

// most returns maxRules of the rules, those that are asked most, in the order in which they are.
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

// growTree joins rules to trees, one for each domain. A small tree is shown whole, of a large
// one the domains.
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

// lately keeps what was some seconds ago, while somebody asks.
type lately[T any] struct {
	take func() T

	mu         sync.Mutex
	older, old lookAt[T]
}

type lookAt[T any] struct {
	at   time.Time
	seen T
}

// How long ago looks are compared with, which is twice as long at most while somebody looks,
// and when none is old enough any more to be.
const (
	lookBack    = 5 * time.Second
	lookForgets = time.Minute
)

// look returns what is now, what was about ten seconds ago, and how long ago exactly: 0 if
// nobody looked then.
func (l *lately[T]) look(now time.Time) (seen, before T, over time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen = l.take()
	switch ago := now.Sub(l.old.at); {
	case ago >= lookForgets: // or this is the first look
		l.old = lookAt[T]{now, seen}
		l.older = l.old
	case ago >= lookBack:
		l.older, l.old = l.old, lookAt[T]{now, seen}
	}
	if over = now.Sub(l.older.at); over < time.Second {
		over = 0 // of so short a time, a rate says nothing
	}
	return seen, l.older.seen, over
}
