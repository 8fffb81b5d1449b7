package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
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
	ID       string // of the element of the page, the same each time
	Name     string
	IsRule   bool
	Place    string // of the rule, and what follows
	Limits   []limit
	Link     asked // a descriptor that leads to it
	Below    []*branch
	Sum      demand // of the rule and of what is below
	Open     bool
	HasRates bool
}

// demand is how many units a second were asked for, and how many of those were over.
type demand struct{ Asked, Over float64 }

// limit is a limit of a rule.
type limit struct {
	Name   string // or how it counts
	Amount string // such as "5 per minute"
	Mode   string // "" if it is enforced
	Rate   demand
}

// busiest returns the page of the rules that are asked most, of those that contain filter.
func (c *Console) busiest(filter string) rulesPage {
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
	now, before, over := c.outcomes.look(time.Now())
	rates := &rates{now, before, over}
	page.Matching, page.All, page.Over = len(rules), tree.Rules(), over
	if len(rules) > maxRules {
		rules = rates.most(rules)
	}
	page.Shown, page.Tree = len(rules), growTree(rules, rates)
	return page
}

// rates are those of limits.
type rates struct {
	now, before map[limiter.Series]telemetry.Outcome
	over        time.Duration
}

// of returns the rate of a limit, 0 if its sums began anew.
func (r *rates) of(l *limiter.Limit) demand {
	now, was := r.now[l.Series], r.before[l.Series]
	if now.Asked <= was.Asked || r.over == 0 {
		return demand{}
	}
	return demand{float64(now.Asked-was.Asked) / r.over.Seconds(), float64(now.Over-min(now.Over, was.Over)) / r.over.Seconds()}
}

// ofRule returns the rate of the limit that is asked most, because a request asks all
// limits of a rule, and of the one that is over most.
func (r *rates) ofRule(rule *descriptors.Rule) (most demand) {
	for _, l := range rule.Limits {
		rate := r.of(l)
		most = demand{max(most.Asked, rate.Asked), max(most.Over, rate.Over)}
	}
	return most
}

// most returns maxRules of the rules, those that are asked most, in the order in which they are.
func (r *rates) most(rules []*descriptors.Rule) []*descriptors.Rule {
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

// growTree joins rules to trees, one for each domain.
func growTree(rules []*descriptors.Rule, rates *rates) []*branch {
	root, byID := new(branch), map[string]*branch{}
	for _, r := range rules {
		at, rate, words := root, rates.ofRule(r), r.Words()
		for i, word := range words {
			sum := sha256.Sum256([]byte(strings.Join(words[:i+1], "\x00")))
			id := "rule-" + hex.EncodeToString(sum[:8])
			next := byID[id]
			if next == nil {
				next = &branch{ID: id, Name: plaintext.Line(word), HasRates: rates.over > 0}
				// A small tree is shown whole, a large one as far as it is busy.
				next.Open = len(rules) <= openRules || i == 0
				byID[id], at.Below = next, append(at.Below, next)
			}
			at = next
			at.Sum = demand{at.Sum.Asked + rate.Asked, at.Sum.Over + rate.Over}
		}
		at.IsRule, at.Place, at.Link = true, r.Place(), spell(r.Entries())
		for _, l := range r.Limits {
			at.Limits = append(at.Limits, describe(l, rates))
		}
	}
	return root.Below
}

func describe(l *limiter.Limit, rates *rates) limit {
	shown := limit{Name: l.Series.Labels().Limit, Amount: "unlimited", Rate: rates.of(l)}
	if !l.Unlimited {
		shown.Amount = l.Rate()
	}
	if shown.Name == l.Per() || l.Unlimited { // which Amount says, too
		shown.Name = l.Name
	}
	if l.Mode != limiter.Enforced {
		shown.Mode = descriptors.ModeWord(l.Mode)
	}
	return shown
}
