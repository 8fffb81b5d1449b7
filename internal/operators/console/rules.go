package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/telemetry"
)

const (
	// maxRules bounds the rules of a page.
	maxRules = 200
	// openRules is how many rules are shown without a click.
	openRules = 30
)

// rulesPage is the page of the rules.
type rulesPage struct {
	Filter string
	// Shown is how many rules the page has: the busiest of those that contain the filter,
	// which are Matching of All.
	Shown, Matching, All int
	// Over is the time that the rates are of, 0 if that has just begun.
	Over time.Duration
	Tree []*branch // one for each domain
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
func (b *branch) Link() spelled { return spell(b.Entries()) }

// demand is how many units a second were asked for, and how many of those were over.
type demand struct{ Asked, Over float64 }

func (c *console) rules(r *http.Request) (any, error) { return c.busiest(r.Form.Get("filter")), nil }

// busiest returns the page of the rules that are asked most, of those that contain filter.
func (c *console) busiest(filter string) rulesPage {
	page := rulesPage{Filter: filter}
	tree := c.Tree()
	if tree == nil {
		return page
	}
	var rules []*descriptors.Rule
	lower := strings.ToLower(filter)
	for r := range tree.All() {
		if filter == "" || strings.Contains(strings.ToLower(r.String()), lower) {
			rules = append(rules, r)
		}
	}
	rates := new(rates)
	rates.now, rates.before, rates.over = c.outcomes.look(time.Now())
	page.Matching, page.All, page.Over = len(rules), tree.Rules(), rates.over
	rules = rates.most(rules)
	page.Shown, page.Tree = len(rules), growTree(rules, rates)
	return page
}

// rates are those of limits.
type rates struct {
	now, before map[limiter.Series]telemetry.Outcome
	over        time.Duration
}

// Known reports whether there are any yet.
func (r *rates) Known() bool { return r.over > 0 }

// Of returns the rate of a limit, 0 if its sums began anew.
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
	asked, order := make([]float64, len(rules)), make([]int, len(rules))
	for i, rule := range rules {
		asked[i], order[i] = r.ofRule(rule).Asked, i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(asked[b], asked[a]) })
	busiest := make([]*descriptors.Rule, 0, maxRules)
	for _, i := range slices.Sorted(slices.Values(order[:maxRules])) {
		busiest = append(busiest, rules[i])
	}
	return busiest
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
