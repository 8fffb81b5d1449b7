package descriptors

import (
	"cmp"
	"maps"
	"slices"

	"weir/internal/limiter"
)

// Trace is the way that Match takes through the tree for one descriptor.
type Trace struct {
	// Known reports whether there are rules for the domain. If there are none, Domains
	// are those that there are rules for, sorted.
	Known   bool
	Domains []string
	// Levels holds one level for each entry, up to the first that leads nowhere.
	Levels []Level
	// Rule is what Match returns.
	Rule *Rule
	// Children are the nodes to which a way was left where it ended without a
	// rule: because an entry leads nowhere, or because the descriptor ends too
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
	// configured: the value is a pattern for ByWildcard and "" for ByKey.
	Node limiter.Entry
}

// How says by what an entry leads to a node.
type How uint8

// The ways, from the most to the least exact.
const (
	Nowhere    How = iota // there is no node for the entry
	ByValue               // key and value are the node's
	ByWildcard            // the node's value is the first wildcard that matches
	ByKey                 // the node has the key and no value
)

// Explain returns how Match finds the rule for a descriptor, or why it finds none.
func (t *Tree) Explain(domain string, entries []limiter.Entry) Trace {
	n := t.domains[domain]
	if n == nil {
		return Trace{Domains: t.DomainNames()}
	}
	trace := Trace{Known: true, Rule: t.Match(domain, entries)}
	way := []*node{n}
	for _, e := range entries {
		next := n.next(e)
		trace.Levels = append(trace.Levels, leads(e, next))
		if next == nil {
			break
		}
		n, way = next, append(way, next)
	}
	if trace.Rule == nil {
		trace.Children, trace.Hidden = n.list(), hidden(way, entries)
	}
	return trace
}

// leads returns how an entry led to a node, nil if it led nowhere.
func leads(e limiter.Entry, n *node) Level {
	switch {
	case n == nil:
		return Level{Entry: e}
	case n.entry.Value == "":
		return Level{e, ByKey, n.entry}
	case n.entry.Value == e.Value:
		return Level{e, ByValue, n.entry}
	default:
		return Level{e, ByWildcard, n.entry}
	}
}

// list returns the keys and values of the children in order.
func (n *node) list() []limiter.Entry {
	return slices.SortedFunc(maps.Keys(n.children), func(a, b limiter.Entry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
}

// Words say how a limit counts, in the words of rule files, defaults included.
type Words struct {
	Period    string // such as minute, or 5 minutes
	Algorithm string
	Anchor    string // "" unless a fixed window
	Charge    string
	Mode      string // enforced, shadow_mode or quota_mode
	// FailureMode is error, allow, deny or local.
	FailureMode string
}

// WordsFor returns the words for a limit that is not unlimited. charge and
// failure are those of limits that do not say it themselves.
func WordsFor(l *limiter.Limit, charge limiter.Charge, failure limiter.FailureMode) Words {
	w := Words{
		Period:    l.Per(),
		Algorithm: l.Algorithm.String(),
		Charge:    charges[cmp.Or(l.Charge, charge, limiter.Auto)-limiter.Auto],
		Mode:      ModeWord(l.Mode),

		FailureMode: cmp.Or(l.FailureMode, failure, limiter.FailureError).String(),
	}
	if l.Algorithm.Takes(limiter.AnchorOption) {
		w.Anchor = anchors[l.Anchor]
	}
	return w
}

// ModeWord names a mode by the field that asks for it.
func ModeWord(m limiter.Mode) string {
	switch m {
	case limiter.Shadow:
		return "shadow_mode"
	case limiter.Quota:
		return "quota_mode"
	default:
		return "enforced"
	}
}
