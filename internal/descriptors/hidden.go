package descriptors

import (
	"runtime"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// Matching does not backtrack. So the limits below a general node do not apply to values that
// lead to a more specific node, unless the more specific node repeats them.

const (
	maxNamed = 100 // number of nodes with their own warnings; a last warning counts the others
	maxLost  = 3   // number of missing limits that a warning names
	// maxCompared limits the work of comparing nodes and patterns. Most trees need far less,
	// because few specific nodes have many children and repeat all limits of the general node.
	maxCompared = 16 * MaxWork
	nodeWork    = 32 // cost of comparing two nodes
)

// valued is a node for certain values of its key. values has these values or, for networks, the
// first address of each network. values is empty for a regular expression, whose values are unknown.
type valued struct {
	*node
	values []string
}

// warnOfHidden warns of nodes that lack limits of a more general node, and of nodes for any value
// that are never reached.
func (l *loader) warnOfHidden() {
	work := maxCompared
	var lacking []*node // nodes that lack limits of a more general node
	for _, v := range l.valued {
		n, anyValue := v.node, v.parent.exact[limiter.Entry{Key: v.entry.Key}]
		generals := []*node{anyValue}
		switch {
		case n.matchesAll:
			if anyValue != nil {
				l.warn(anyValue.location(), "never reached, %s at %s matches every value", n.value(), n.location())
			}
			continue
		case len(v.values) > 0:
			generals = v.hiddenBy(&work)
		}
		for _, general := range generals {
			if general == nil || !general.limited {
				continue
			}
			lost := n.lost(nil, general, "itself", &work)
			if len(lost) == 0 {
				continue
			}
			if len(lost) > maxLost {
				lost = append(lost[:maxLost], "others")
			}
			if lacking = append(lacking, n); len(lacking) <= maxNamed {
				l.warn(n.location(), "%s has no limit for %s, unlike %s at %s: matching does not backtrack. "+
					"Repeat here the rate_limit and descriptors that you need; if you need none, write rate_limit: {unlimited: true} and below: true",
					n.way(), strings.Join(lost, ", "), general.way(), general.location())
			}
			break
		}
	}
	if more := len(lacking) - maxNamed; more > 0 {
		first := lacking[maxNamed]
		l.warn(first.location(), "%s and %d of the rules after it lack limits that a more general one beside them has, too", first.way(), more-1)
	}
}

// hiddenBy returns the nodes to which the values of v would lead without v. It stops when too little
// work is left. It looks up a wildcard by its text: another wildcard that matches this text also
// matches every value that the wildcard matches, because its '*' covers each '*' in the text.
func (v valued) hiddenBy(work *Work) (generals []*node) {
	if p := v.parent.patterns[v.entry.Key]; p != nil && p.compared < 0 {
		return nil // there are too many wildcards
	}
	seen := map[*node]bool{}
	for _, value := range v.values {
		runtime.Gosched()
		found := false
		for other := range v.parent.all(limiter.Entry{Key: v.entry.Key, Value: value}, work) {
			if other == v.node {
				found = true
			} else if found {
				if !seen[other] {
					seen[other], generals = true, append(generals, other)
				}
				break
			}
		}
	}
	return generals
}

// isLimited reports whether r is not nil and has a limit that is not unlimited.
func (r *Rule) isLimited() bool {
	return r != nil && slices.ContainsFunc(r.Limits, func(l *limiter.Limit) bool { return !l.Unlimited })
}

// lost appends to list the paths to limits below general that n lacks, until list has more than
// maxLost paths. way is the path so far, which leads to n and to general, or "itself" at the start.
func (n *node) lost(list []string, general *node, way string, work *Work) []string {
	own := n.rule
	if own != nil && own.below {
		return list // n's limits apply to everything below n
	}
	if limited := general.rule.isLimited(); limited && general.rule.below {
		list = append(list, "longer descriptors")
	} else if own == nil && limited {
		list = append(list, way)
	}
	if n.keyless.isLimited() {
		return list
	}
	if general.keyless.isLimited() {
		list = append(list, "what no rule below it matches")
	}
	for _, child := range general.children {
		if !work.take(nodeWork) || len(list) > maxLost {
			break
		}
		if !child.limited {
			continue
		}
		below := strings.TrimPrefix(way+"|"+Spell(child.shown()), "itself|")
		if same, known := n.same(child, work); !known {
			continue
		} else if same == nil {
			list = append(list, below)
		} else {
			list = same.lost(list, child, below, work)
		}
	}
	return list
}

// same returns the child of n to which the entry of other leads, or nil. other is a child of another
// node. known is false if the result cannot be determined, as for some regular expressions.
func (n *node) same(other *node, work *Work) (child *node, known bool) {
	e, p := other.entry, n.patterns[other.entry.Key]
	switch {
	case other.how == ByNetwork:
		e.Value, _, _ = strings.Cut(e.Value, "/") // the first address
	case other.how == ByRegex && p != nil:
		child = p.sameRegex(e.Value)
		return child, child != nil
	case other.how == ByRegex:
		e.Value = ""
	}
	child = n.next(e, work)
	return child, *work >= 0
}
