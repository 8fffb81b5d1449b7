package descriptors

import (
	"cmp"
	"slices"

	"weir/internal/limiter"
)

// Trace is the way that Match takes through the tree for one descriptor.
type Trace struct {
	// Levels holds one level for each entry, up to the first that leads nowhere.
	Levels []Level
	// Rule is what Match returns. Ends reports whether the descriptor ends at it; otherwise it
	// is one that holds below, or has no key.
	Rule *Rule
	Ends bool
	// Children are the nodes to which a way was left where it ended without a
	// rule of its own: because an entry leads nowhere, or because the descriptor ends too
	// early. They are sorted by key and value; the value of one without is "".
	Children []limiter.Entry
	// Hidden is a rule that is not reached, nil if there is none.
	Hidden *Hidden
}

// Hidden is a rule to which a descriptor would lead if one of its entries did not
// lead to a more specific node. The search does not go back.
type Hidden struct {
	By      limiter.Entry   // the more specific node
	General limiter.Entry   // the one beside it that the entry would lead to instead
	Way     []limiter.Entry // from there to the rule, none if it is there
}

// Level is what becomes of one entry of a descriptor.
type Level struct {
	Entry limiter.Entry
	How   How
	// Node is the key and value of the node that the entry leads to, as they are
	// configured: the value is a pattern for ByWildcard and "" for ByKey, [a+2] for a
	// list or networks that begin with a and have 2 more, ~a for a regular expression.
	Node limiter.Entry
	// Network is the one that holds the address, for ByNetwork.
	Network string
}

// How says by what an entry leads to a node.
type How uint8

// The ways, from the most to the least exact.
const (
	Nowhere    How = iota // there is no node for the entry
	ByValue               // key and value are the node's
	ByList                // the value is in the node's list
	ByNetwork             // one of the node's networks has the longest prefix of those that hold the address
	ByWildcard            // the node's value is the first wildcard or regular expression that matches
	ByRegex               // the node's regular expression is the first of both
	ByKey                 // the node is for any value
	NamesHold             // it leads to no node, but names the hold of the rule
	TooLong               // its value takes too much Work: it leads to a rule that denies
)

// Explain returns how Match finds the rule for a descriptor, or why it finds none.
func (t *Tree) Explain(domain string, entries []limiter.Entry) Trace {
	n := t.domains[domain]
	if n == nil {
		return Trace{}
	}
	work := MaxWork
	rule, holdEntry, _ := t.MatchHold(domain, entries, &work)
	work = MaxWork
	trace := Trace{Rule: rule}
	way, leading := []*node{n}, entries // those that lead somewhere, or are to
	if holdEntry >= 0 {
		leading = slices.Delete(slices.Clone(entries), holdEntry, holdEntry+1)
	}
	for i, e := range entries {
		if i == holdEntry {
			trace.Levels = append(trace.Levels, Level{Entry: e, How: NamesHold})
			continue
		}
		next := n.next(e, &work)
		trace.Levels = append(trace.Levels, n.leads(e, next))
		if next == nil {
			break
		}
		if n, way = next, append(way, next); n.how == TooLong {
			break
		}
	}
	trace.Ends = len(way) > len(leading) && len(leading) > 0 && n.rule != nil || n.how == TooLong
	if !trace.Ends {
		children := slices.SortedStableFunc(slices.Values(n.children), func(a, b *node) int {
			return cmp.Or(cmp.Compare(a.entry.Key, b.entry.Key), cmp.Compare(a.entry.Value, b.entry.Value))
		})
		for _, child := range children {
			trace.Children = append(trace.Children, child.named())
		}
		trace.Hidden = hidden(way, leading, &work)
	}
	return trace
}

// hidden finds a node that would lead entries to a rule if a more specific one did
// not hide it, the one furthest from the domain. nodes are those that entries led
// to, from the domain on.
func hidden(nodes []*node, entries []limiter.Entry, work *Work) *Hidden {
	for i := min(len(nodes)-2, len(entries)-1); i >= 0; i-- {
		for general := range nodes[i].all(entries[i], work) { // the first leads nowhere
			if way := general.follow(entries[i+1:], work); way != nil {
				return &Hidden{By: nodes[i+1].named(), General: general.named(), Way: way[1:]}
			}
		}
	}
	return nil
}

// follow returns n and what entries lead to from there on, nil if that is no rule.
func (n *node) follow(entries []limiter.Entry, work *Work) []limiter.Entry {
	way := []limiter.Entry{n.named()}
	for _, e := range entries {
		if n = n.next(e, work); n == nil || n.how == TooLong {
			return nil
		}
		way = append(way, n.named())
	}
	if n.rule == nil {
		return nil
	}
	return way
}

// leads returns how an entry led from n to its child next, nil if it led nowhere.
func (n *node) leads(e limiter.Entry, next *node) Level {
	if next == nil {
		return Level{Entry: e}
	}
	l := Level{Entry: e, How: next.how, Node: next.named()}
	switch {
	case next.how == ByWildcard && next.entry.Value == e.Value:
		l.How = ByValue
	case next.how == ByList && n.exact[e] != next:
		l.How = ByWildcard
	case next.how == ByNetwork:
		address, _ := parseAddress(e.Value)
		network, _, _ := n.patterns[e.Key].networks.LookupPrefixLPM(host(address))
		l.Network = network.String()
	}
	return l
}

// Shared returns for which values of the levels of r all share one counter, as people
// read them.
func (r *Rule) Shared() (values []string) {
	way := r.node.path()[1:]
	for i, pattern := range r.Patterns {
		if pattern != "" {
			values = append(values, cmp.Or(way[i].value(), pattern))
		}
	}
	return values
}
