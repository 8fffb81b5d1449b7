package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// Trace is the path of Match through the tree for one descriptor.
type Trace struct {
	// Levels has a Level for each entry, up to the first entry that leads nowhere.
	Levels []Level
	// Rule is the result of Match. Ends reports whether the descriptor ends at Rule. Otherwise
	// Rule is a rule above whose limits apply below, a rule without a key, or nil.
	Rule *Rule
	Ends bool
	// Children are the entries of the nodes below the end of the path, sorted by key and value,
	// if the descriptor does not end at a rule. A child that matches any value has the value "".
	Children []limiter.Entry
	// Hidden describes a rule that would apply if matching backtracked, and the more specific
	// node that hides it. It is empty if there is no such rule.
	Hidden string
}

// Level is the match of one entry of a descriptor. Entry and Node are in the form of Spell.
type Level struct {
	Entry string `json:"entry"`
	Match string `json:"match"` // value, list, network, wildcard, regex, key, hold, long or none
	// Node has the configured key and value of the node to which the entry leads, if any. The
	// value is a pattern for a wildcard, "" for any value, [a+2] for a list or networks that
	// begin with a and have 2 more, and ~a for a regular expression.
	Node string `json:"node,omitempty"`
	// Network is the node's network that contains the address.
	Network string `json:"network,omitempty"`
}

// How is the way in which an entry leads to a node.
type How uint8

// The ways, from the most specific to the least.
const (
	Nowhere    How = iota // no node matches the entry
	ByValue               // the node has the key and value
	ByList                // the node's list contains the value
	ByNetwork             // the node has the network with the longest prefix that matches the address
	ByWildcard            // the node's wildcard is the first matching wildcard or regular expression
	ByRegex               // the node's regular expression is the first matching wildcard or regular expression
	ByKey                 // the node is for any value of the key
	NamesHold             // the entry leads to no node but names the rule's hold
	TooLong               // the value takes too much Work, so it leads to a rule that denies
)

// matches has the word in Level.Match for each How.
var matches = [...]string{"none", "value", "list", "network", "wildcard", "regex", "key", "hold", "long"}

// Explain returns the path that Match takes for a descriptor, even if it finds no rule.
func (t *Tree) Explain(domain string, entries []limiter.Entry) Trace {
	n := t.domains[domain]
	if n == nil {
		return Trace{}
	}
	work := MaxWork
	rule, holdEntry, _ := t.Match(domain, entries, &work)
	work = MaxWork
	trace := Trace{Rule: rule}
	way, leading := []*node{n}, entries // leading omits the entry that names a hold
	if holdEntry >= 0 {
		leading = slices.Delete(slices.Clone(entries), holdEntry, holdEntry+1)
	}
	for i, e := range entries {
		if i == holdEntry {
			trace.Levels = append(trace.Levels, Level{Entry: Spell(e), Match: matches[NamesHold]})
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
			trace.Children = append(trace.Children, child.shown())
		}
		trace.Hidden = hidden(way, leading, &work)
	}
	return trace
}

// hidden describes a rule to which entries would lead if they left the path of nodes, as late as possible.
// It returns "" if there is no such rule. nodes are the nodes to which entries lead, domain first.
func hidden(nodes []*node, entries []limiter.Entry, work *Work) string {
	for i := min(len(nodes)-2, len(entries)-1); i >= 0; i-- {
		for general := range nodes[i].all(entries[i], work) { // the first one is on the path and leads to no rule
			if way, found := general.follow(entries[i+1:], work); found {
				value := ""
				if general.value() == "" {
					value = " (any value)"
				}
				return fmt.Sprintf("%s%s has %s; %s hides it", general.word(), value, cmp.Or(strings.Join(way, ", "), "a rule"), nodes[i+1].word())
			}
		}
	}
	return ""
}

// follow returns the names of the nodes to which entries lead from n. found reports whether the last
// entry leads to a rule.
func (n *node) follow(entries []limiter.Entry, work *Work) (way []string, found bool) {
	for _, e := range entries {
		if n = n.next(e, work); n == nil || n.how == TooLong {
			return nil, false
		}
		way = append(way, n.word())
	}
	return way, n.rule != nil
}

// leads describes how an entry leads from n to its child next, or nowhere if next is nil.
func (n *node) leads(e limiter.Entry, next *node) Level {
	if next == nil {
		return Level{Entry: Spell(e), Match: matches[Nowhere]}
	}
	l, how := Level{Entry: Spell(e), Node: Spell(next.shown())}, next.how
	switch {
	case how == ByWildcard && next.entry.Value == e.Value:
		how = ByValue
	case how == ByList && n.exact[e] != next:
		how = ByWildcard
	case how == ByNetwork:
		address, _ := parseAddress(e.Value)
		network, _, _ := n.patterns[e.Key].networks.LookupPrefixLPM(host(address))
		l.Network = network.String()
	}
	l.Match = matches[how]
	return l
}

// Shared returns, for each level of r whose values share a counter, these values as shown to
// people.
func (r *Rule) Shared() (values []string) {
	way := r.node.path()[1:]
	for i, pattern := range r.Patterns {
		if pattern != "" {
			values = append(values, cmp.Or(way[i].value(), pattern))
		}
	}
	return values
}
