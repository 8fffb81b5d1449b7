package descriptors

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// Tree holds the rules of all domains. It is immutable, and safe for use by
// many goroutines. The zero Tree has no rules.
type Tree struct {
	domains map[string]*node
	labels  map[string]string // of the domains, in metrics
	rules   []*Rule           // in the order of the files
	// holds has, by domain and key, the first rule whose holds are named by entries with the key.
	holds map[limiter.Entry]*Rule

	warnings Problems
}

// Rule is what a descriptor can lead to: a node of the tree. It is immutable.
type Rule struct {
	// Above is the next rule on the way to this one whose limits hold below it, and so
	// here, too. It is nil if there is none.
	Above *Rule
	// Override says how a limit is counted that a request brings along in the place of
	// Limits. It is nil if the rule does not say.
	Override *Override
	// Limits are all to be kept. They have different counters. A whitelist entry
	// has none: the descriptor is known and unlimited.
	Limits []*limiter.Limit
	// Patterns holds for each level the text that stands for all its values in
	// the counter's key (share_threshold), "" where the value itself does. It
	// ends with the last such text and is nil if there is none, as
	// limiter.Keys.Append wants it.
	Patterns []string
	// Hold is the key of the entry that names a hold of the limits in flight, those of
	// Above included, "" if there are none. The entry has no level of its own, and may be
	// anywhere in a descriptor.
	Hold string
	// Metadata is what answers about this rule carry, nil if nothing. Its values
	// are those of encoding/json.
	Metadata map[string]any

	node *node // where it is
	// labels are those of the metrics, one for each level, nil if they hold no
	// values of requests and are those of the limits.
	labels []levelLabel
	// What asked for values in the labels.
	detailedMetric, valueToMetric bool

	below  bool  // Limits hold for what goes on below, too
	levels int16 // how many entries lead here
}

// node is one place of a domain's tree.
type node struct {
	parent *node // nil for a domain
	file   string
	// entry is the key and a value that leads here from parent: of a list and of
	// networks the first, of a regular expression its text, "" if any does. Of a
	// domain it is its name, as key.
	entry limiter.Entry

	line, column int32 // in file; of a resource of a control plane 0
	index        int32 // in its list of descriptors
	more         int32 // how many values or networks lead here beside the first
	order        int32 // of a wildcard and a regular expression, see patterns
	how          How   // by what entries lead here; Nowhere for a domain, and for a rule without key
	limited      bool  // it leads to a limit that counts, itself or below it
	matchesAll   bool  // a wildcard or a regular expression leads here from every value

	// rule is that of descriptors that end here, nil if the node only leads on.
	rule *Rule
	// keyless is the rule for entries that lead to none of the children. It has a node of
	// its own that is no child.
	keyless *Rule

	children []*node // in the order of the files
	// exact holds children by key and value: each value of a list, and the text of a
	// wildcard, too. The value of a child for any value is "", which no other has.
	exact    map[limiter.Entry]*node
	patterns map[string]*patterns // by key
}

// HasDomain reports whether there are rules for domain.
func (t *Tree) HasDomain(domain string) bool { return t.domains[domain] != nil }

// DomainLabel is what metrics call a domain, "" if there are no rules for it.
func (t *Tree) DomainLabel(domain string) string { return t.labels[domain] }

// Domains is the number of domains.
func (t *Tree) Domains() int { return len(t.domains) }

// DomainNames are those of the domains, sorted.
func (t *Tree) DomainNames() []string { return slices.Sorted(maps.Keys(t.domains)) }

// Rules is the number of rules, whitelist entries included.
func (t *Tree) Rules() int { return len(t.rules) }

// All yields all rules, in the order of the files.
func (t *Tree) All() iter.Seq[*Rule] { return slices.Values(t.rules) }

// Limits yields the limits of all rules, in the order of the files.
func (t *Tree) Limits() iter.Seq[*limiter.Limit] {
	return func(yield func(*limiter.Limit) bool) {
		for _, r := range t.rules {
			for _, l := range r.Limits {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// Places fills in where the rules are written that have limits with the series in
// places. It leaves those that no rule has.
func (t *Tree) Places(places map[limiter.Series]string) {
	for _, r := range t.rules {
		for _, l := range r.Limits {
			if place, wanted := places[l.Series]; wanted && place == "" {
				places[l.Series] = r.Place()
			}
		}
	}
}

// Match returns the rule that applies to a descriptor: the one that its last entry
// leads to, if its entries lead there level by level. Where an entry leads to none, it is
// the rule without key of that level, else the nearest on the way that holds below, else
// nil. The limits of Above apply, too. It does not go back to try another way, and does not
// allocate.
func (t *Tree) Match(domain string, entries []limiter.Entry) *Rule {
	work := MaxWork
	rule, _, _ := t.MatchHold(domain, entries, &work)
	return rule
}

// MatchHold is Match for one of the descriptors of a request, which share work. It also
// returns which entry names the hold of the rule, and so belongs to no level; -1 if there is
// none. If the rule needs a hold, its limits in flight must then deny. And it returns the
// entries as they are counted: in a copy with canonical addresses where networks match.
func (t *Tree) MatchHold(domain string, entries []limiter.Entry, work *Work) (rule *Rule, holdEntry int, counted []limiter.Entry) {
	n, holdEntry := t.domains[domain], -1
	if n == nil {
		return nil, -1, entries
	}
	var without *Rule // if the entry that may name a hold does not
	for i, e := range entries {
		if next := n.next(e, work); next != nil {
			switch n = next; n.how {
			case ByNetwork:
				entries = canonical(entries, i)
			case TooLong:
				return n.rule, -1, entries
			}
			continue
		}
		if rule = n.keyless; rule == nil {
			rule = n.above()
		}
		if holdEntry >= 0 || t.holds[limiter.Entry{Key: domain, Value: e.Key}] == nil {
			return rule.named(without, holdEntry, entries)
		}
		holdEntry, without = i, rule
	}
	if rule = n.rule; rule == nil {
		rule = n.above()
	}
	if holdEntry < 0 && rule != nil && rule.Hold == "" { // nearly always
		return rule, -1, entries
	}
	return rule.named(without, holdEntry, entries)
}

// canonical returns entries with the address at i in its one form, without a zone: in a
// copy, unless it is in that form already. Each way to write an address would have a counter
// of its own otherwise.
func canonical(entries []limiter.Entry, i int) []limiter.Entry {
	if !strings.Contains(entries[i].Value, ":") { // IPv4 has one form
		return entries
	}
	var room [longestAddress]byte
	address, _ := parseAddress(entries[i].Value)
	if text := address.AppendTo(room[:0]); string(text) != entries[i].Value {
		entries = slices.Clone(entries)
		entries[i].Value = string(text)
	}
	return entries
}

// above returns the nearest rule, from n upwards, whose limits hold below it, or nil.
func (n *node) above() *Rule {
	for ; n != nil; n = n.parent {
		if n.rule != nil && n.rule.below {
			return n.rule
		}
	}
	return nil
}

// named returns r, which entry names its hold, and entries. If that entry is not the one
// taken for it, it returns without, as if the one taken had led nowhere.
func (r *Rule) named(without *Rule, holdEntry int, entries []limiter.Entry) (*Rule, int, []limiter.Entry) {
	if holdEntry >= 0 && (r == nil || r.Hold != entries[holdEntry].Key) {
		r, holdEntry = without, -1
	}
	if holdEntry < 0 && r != nil && r.Hold != "" { // it may be behind what led nowhere
		holdEntry = slices.IndexFunc(entries, func(e limiter.Entry) bool { return e.Key == r.Hold })
	}
	return r, holdEntry, entries
}

// Passed returns the last rule that a descriptor passes and whose limits hold below it.
// The descriptor matched r and has so many entries, without the one that names its hold.
// The rule at which it ends is not passed, nor is one without key.
func (r *Rule) Passed(entries int) *Rule {
	if entries > int(r.levels) && !r.IsKeyless() {
		return r
	}
	return r.Above
}

// Counted returns the entries of a descriptor, which matched r or a rule below it,
// that spell the counters of r: those that lead to r. Those of a rule without key are
// all, or those that lead to its level if all share a counter.
func (r *Rule) Counted(entries []limiter.Entry) []limiter.Entry {
	switch {
	case !r.IsKeyless():
		return entries[:r.levels]
	case len(r.Patterns) == int(r.levels):
		return entries[:r.levels-1]
	default:
		return entries
	}
}

// IsKeyless reports whether r has no key: it is for descriptors that no other rule of its
// level matches.
func (r *Rule) IsKeyless() bool { return r.node.how == Nowhere }

// next returns the child that an entry leads to, or nil: the one with its key
// and value, else what patterns find, else the one with its key for any value.
// An entry without value is no exception: the wildcard * alone matches it, or a
// regular expression that matches "".
func (n *node) next(e limiter.Entry, work *Work) *node {
	if child := n.exact[e]; child != nil {
		return child
	}
	if p := n.patterns[e.Key]; p != nil {
		if child := p.find(e.Value, work); child != nil {
			return child
		}
	}
	return n.exact[limiter.Entry{Key: e.Key}]
}

// all yields the child that an entry leads to and those that it would lead to if
// that were not there, and so on. It may yield one several times. It ends when too little
// work is left.
func (n *node) all(e limiter.Entry, work *Work) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if child := n.exact[e]; child != nil && !yield(child) {
			return
		}
		if p := n.patterns[e.Key]; p != nil {
			for child := range p.all(e.Value, work) {
				if !yield(child) {
					return
				}
			}
		}
		if child := n.exact[limiter.Entry{Key: e.Key}]; child != nil && *work >= 0 {
			yield(child)
		}
	}
}
