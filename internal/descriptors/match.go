package descriptors

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// Tree has the rules of all domains. It is immutable. The zero Tree has no rules.
type Tree struct {
	domains map[string]*node
	labels  map[string]string // names of the domains in metrics
	rules   []*Rule           // all rules in the order of the files
	buckets []*Rule           // the rules with quota_service
	// orders maps each result of unordered to the orders of its keys that lead to buckets.
	orders map[string][][]string
	// holds maps a domain and a key to the first rule whose holds are named by entries with that key.
	holds map[limiter.Entry]*Rule

	warnings Problems
}

// Rule applies to the descriptors that lead to a node. It is immutable.
type Rule struct {
	// Above is the nearest higher rule with limits that also apply below it, and so to the
	// descriptors of this rule. It is nil if there is none.
	Above *Rule
	// Override says how to count a limit that a request sends to replace Limits. It may be nil.
	Override *Override
	// Limits all apply, each with its own counter. A whitelist entry has no limits: its
	// descriptor is known and unlimited.
	Limits []*limiter.Limit
	// Patterns has, for each level with share_threshold, the text that replaces its values in
	// the counter's key, and "" for other levels. It ends with the last level with share_threshold,
	// and is nil if there is none. Patterns is an argument of limiter.Keys.Append.
	Patterns []string
	// Hold is the key of the entry that names a hold (for concurrency limits) or a reservation
	// (for limits with settle). It is "" if neither this rule nor Above has such limits. The entry
	// is not part of the path to the rule, and may be anywhere in a descriptor.
	Hold string
	// InFlight reports whether this rule or Above has concurrency limits.
	InFlight bool
	// Metadata is sent in answers about this rule. It may be nil. Its values have the types that
	// encoding/json decodes into.
	Metadata map[string]any

	node *node
	// labels are the names of the levels in metrics, or nil if no name contains a request's
	// value. If labels is nil, the series of the limits have the complete names.
	labels []levelLabel
	// Settings that put values of requests into labels.
	detailedMetric, valueToMetric bool

	below  bool  // Limits apply below the rule, too
	levels int16 // length of the path to the rule, in entries
}

// node is a node in the tree of a domain.
type node struct {
	parent *node // nil for a domain
	file   string
	// entry has the key, and a value that leads here from parent: the first value of a list or
	// of networks, the text of a regular expression, or "" if every value does. For a domain, the
	// key is its name.
	entry limiter.Entry

	line, column int32 // location in file; 0 for a resource of a control plane
	index        int32 // index in its list of descriptors
	more         int32 // number of values or networks besides the first
	order        int32 // for a wildcard or regular expression, its rank by location among siblings with the same key
	how          How   // how entries lead here; Nowhere for a domain or a rule without a key
	limited      bool  // the node or a node below it has a limit that is not unlimited
	matchesAll   bool  // one of its wildcards or its regular expression matches every value

	// rule applies to descriptors that end here. It is nil if the node only has children.
	rule *Rule
	// quota is the rule of a node with quota_service. Such a node has a nil rule.
	quota *Rule
	// keyless applies to entries that lead to no child. The node of keyless is not among the
	// children.
	keyless *Rule

	children []*node // in the order of the files
	// exact has children by key and value, including each value of a list and the text of each
	// wildcard. A child that matches any value has the value "", which no list can contain.
	exact    map[limiter.Entry]*node
	patterns map[string]*patterns // by key
}

// HasDomain reports whether domain has rules.
func (t *Tree) HasDomain(domain string) bool { return t.domains[domain] != nil }

// DomainLabel returns the name of a domain in metrics, or "" if it has no rules.
func (t *Tree) DomainLabel(domain string) string { return t.labels[domain] }

// Domains returns the number of domains.
func (t *Tree) Domains() int { return len(t.domains) }

// DomainNames returns the names of the domains, sorted.
func (t *Tree) DomainNames() []string { return slices.Sorted(maps.Keys(t.domains)) }

// Rules returns the number of rules, including whitelist entries.
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

// Locations sets each empty value of bySeries to the location of the first rule that has a limit
// with that series. It does not change the values of series that no limit has.
func (t *Tree) Locations(bySeries map[limiter.Series]string) {
	for _, r := range t.rules {
		for _, l := range r.Limits {
			if location, wanted := bySeries[l.Series]; wanted && location == "" {
				bySeries[l.Series] = r.Location()
			}
		}
	}
}

// Match returns the rule that applies to a descriptor: the rule to which its entries lead level
// by level. If there is no such rule, Match returns the nearest rule above whose limits apply below,
// or nil. But if an entry leads nowhere, the rule without a key of that level takes precedence. The
// limits of rule.Above apply, too. Match does not backtrack, and allocates only for some values that
// it compares with networks. All calls for one request share work.
//
// holdEntry is the index of the entry that names the rule's hold and is not part of the path, or
// -1. If the rule needs a hold and holdEntry is -1, the rule's concurrency limits must deny.
// counted has the entries for the keys of counters: entries, or a copy with canonical addresses if
// networks match.
func (t *Tree) Match(domain string, entries []limiter.Entry, work *Work) (rule *Rule, holdEntry int, counted []limiter.Entry) {
	n, holdEntry := t.domains[domain], -1
	if n == nil {
		return nil, -1, entries
	}
	var without *Rule // the result if the entry at holdEntry does not name a hold of the rule
	for i, e := range entries {
		if next := n.next(e, work); next != nil {
			switch p := n.patterns[e.Key]; {
			case next.how == TooLong:
				return next.rule, -1, entries
			case next.how == ByNetwork, next.how == ByKey && p != nil && p.networks != nil:
				entries = canonical(entries, i)
			}
			n = next
			continue
		}
		if rule = n.keyless; rule == nil {
			rule = n.above()
		}
		if holdEntry >= 0 || t.holds[limiter.Entry{Key: domain, Value: e.Key}] == nil {
			return rule.withHold(without, holdEntry, entries)
		}
		holdEntry, without = i, rule
	}
	if rule = n.rule; rule == nil {
		rule = n.above()
	}
	if holdEntry < 0 && rule != nil && rule.Hold == "" { // the usual case
		return rule, -1, entries
	}
	return rule.withHold(without, holdEntry, entries)
}

// MatchCounted is like Match with MaxWork, but counted does not contain the entry at holdEntry.
func (t *Tree) MatchCounted(domain string, entries []limiter.Entry) (rule *Rule, holdEntry int, counted []limiter.Entry) {
	work := MaxWork
	if rule, holdEntry, counted = t.Match(domain, entries, &work); holdEntry >= 0 {
		counted = slices.Delete(slices.Clone(counted), holdEntry, holdEntry+1)
	}
	return rule, holdEntry, counted
}

// canonical returns entries with the value at i, if it is an address, in canonical form and
// without a zone, so that all forms of an address share a counter. If this changes the value,
// the result is a copy.
func canonical(entries []limiter.Entry, i int) []limiter.Entry {
	if !strings.Contains(entries[i].Value, ":") { // IPv4 addresses are always canonical
		return entries
	}
	var room [longestAddress]byte
	address, ok := parseAddress(entries[i].Value)
	if text := address.AppendTo(room[:0]); ok && string(text) != entries[i].Value {
		entries = slices.Clone(entries)
		entries[i].Value = string(text)
	}
	return entries
}

// above returns the nearest rule, of n or of an ancestor, whose limits apply below, or nil.
func (n *node) above() *Rule {
	for ; n != nil; n = n.parent {
		if n.rule != nil && n.rule.below {
			return n.rule
		}
	}
	return nil
}

// withHold returns the results of Match. r is the rule that the entries lead to if Match skips the
// entry at holdEntry. If that entry does not name a hold of r, withHold returns parameter without
// instead of r, as if the entry had led nowhere.
func (r *Rule) withHold(without *Rule, holdEntry int, entries []limiter.Entry) (*Rule, int, []limiter.Entry) {
	if holdEntry >= 0 && (r == nil || r.Hold != entries[holdEntry].Key) {
		r, holdEntry = without, -1
	}
	if holdEntry < 0 && r != nil && r.Hold != "" { // the entry may follow the path
		holdEntry = slices.IndexFunc(entries, func(e limiter.Entry) bool { return e.Key == r.Hold })
	}
	return r, holdEntry, entries
}

// Passed returns the lowest rule whose limits apply below and which a descriptor passes before its
// end, or nil. r is the rule that Match returned, and entries is the number of the descriptor's
// entries without the entry that names a hold. A descriptor never passes a rule without a key.
func (r *Rule) Passed(entries int) *Rule {
	if entries > int(r.levels) && !r.IsKeyless() {
		return r
	}
	return r.Above
}

// Counted returns the entries in the keys of r's counters, for a descriptor that matched r or a
// rule below it: the entries that lead to r. For a rule without a key, Counted returns all entries
// or, with share_threshold, only the entries that lead to the rule's level.
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

// IsKeyless reports whether r has no key, and so applies if its level has no other match.
func (r *Rule) IsKeyless() bool { return r.node.how == Nowhere }

// IsDivided reports whether the rule has quota_service.
func (r *Rule) IsDivided() bool { return r.node.quota == r }

// next returns the child to which an entry leads, or nil. It tries the child with the key and
// value, then the patterns of the key, then the child for any value of the key. An empty value
// is no exception: the wildcard * and some regular expressions match it.
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

// all yields the child to which an entry leads, then the child to which it would lead without
// the first child, and so on. It may repeat a child. It stops when too little work is left.
func (n *node) all(e limiter.Entry, work *Work) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if child := n.exact[e]; child != nil && !yield(child) {
			return
		}
		if p := n.patterns[e.Key]; p != nil && !p.all(e.Value, work, yield) {
			return
		}
		if child := n.exact[limiter.Entry{Key: e.Key}]; child != nil && *work >= 0 {
			yield(child)
		}
	}
}
