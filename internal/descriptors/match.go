package descriptors

import (
	"iter"
	"maps"
	"slices"

	"weir/internal/limiter"
	"weir/internal/strictyaml"
)

// Tree holds the rules of all domains. It is immutable, and safe for use by
// many goroutines. The zero Tree has no rules.
type Tree struct {
	domains map[string]*node
	labels  map[string]string // of the domains, in metrics
	rules   []*Rule           // in the order of the files

	warnings Problems
}

// Rule is a node of the tree at which a descriptor can end. It is immutable.
type Rule struct {
	// Limits are all to be kept. They have different counters. A whitelist entry
	// has none: the descriptor is known and unlimited.
	Limits []*limiter.Limit
	// Patterns holds for each level the wildcard that stands for the value in
	// the counter's key (share_threshold), "" where the value itself does. It
	// ends with the last wildcard and is nil if there is none, as
	// limiter.Keys.Append wants it.
	Patterns []string
	// Metadata is what answers about this rule carry, nil if nothing. Its values
	// are those of encoding/json.
	Metadata map[string]any

	node *node // where it is
	file string
	at   strictyaml.Position // in file; of a resource of a control plane there is none
	// labels are those of the metrics, one for each level, nil if they hold no
	// values of requests and are those of the limits.
	labels []levelLabel
	// What asked for values in the labels.
	detailedMetric, valueToMetric bool
}

// node is one place of a domain's tree.
type node struct {
	parent *node         // nil for a domain
	entry  limiter.Entry // what leads here from parent; of a domain its name, as key
	rule   *Rule         // nil if the node only leads to others
	// children by key and value. The value of a child that has none is "", which
	// no other child has.
	children  map[limiter.Entry]*node
	wildcards map[string]*wildcards // by key; they are in children, too
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

// Match returns the rule that applies to a descriptor, or nil if none does: the
// one that its last entry leads to, if its entries lead there level by level.
// It does not go back to try another way. It does not allocate.
func (t *Tree) Match(domain string, entries []limiter.Entry) *Rule {
	n := t.domains[domain]
	if n == nil {
		return nil
	}
	for _, e := range entries {
		if n = n.next(e); n == nil {
			return nil
		}
	}
	return n.rule
}

// next returns the child that an entry leads to, or nil: the one with its key
// and value, else the first wildcard, else the one with its key and no value.
// An entry without value is no exception: the wildcard * alone matches it.
func (n *node) next(e limiter.Entry) *node {
	if child := n.children[e]; child != nil {
		return child
	}
	if w := n.wildcards[e.Key]; w != nil {
		if child := w.find(e.Value, nil); child != nil {
			return child
		}
	}
	return n.children[limiter.Entry{Key: e.Key}]
}
