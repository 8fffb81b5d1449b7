package descriptors

import (
	"runtime"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// The search for a rule never goes back. So what a more general node has below it
// is lost for the values that lead to a more specific one, unless that has it, too.

const (
	maxNamed = 100 // nodes that lack what a more general one has; further ones are counted
	maxLost  = 3   // limits that one of them lacks are named
	// maxCompared bounds the comparisons of nodes and patterns. Few specific nodes have many
	// children and all that the general one has, so most trees take far less.
	maxCompared = 16 * MaxWork
	aNode       = 32 // what comparing two nodes takes of it
)

// hiding looks for limits that specific nodes hide.
type hiding struct {
	*loader
	work    Work    // left for comparisons
	lacking []*node // that lack limits
}

// valued is a node that is not for any value, with its values, and one address of each of
// its networks. Those of a regular expression are not known.
type valued struct {
	*node
	values []string
}

// warnOfHidden warns of limits that no request reaches for some values, and of
// nodes for any value that it reaches for none.
func (l *loader) warnOfHidden() {
	h := hiding{loader: l, work: maxCompared}
	for _, v := range l.valued {
		n, anyValue := v.node, v.parent.exact[limiter.Entry{Key: v.entry.Key}]
		generals := []*node{anyValue}
		switch {
		case n.matchesAll:
			if anyValue != nil {
				l.warn(anyValue.place(), "never reached, %s at %s matches every value", n.value(), n.place())
			}
			continue
		case len(v.values) > 0:
			generals = h.hiddenBy(v)
		}
		for _, general := range generals {
			if general == nil || !general.limited {
				continue
			}
			lost := h.lost(nil, n, general, "itself")
			if len(lost) == 0 {
				continue
			}
			if len(lost) > maxLost {
				lost = append(lost[:maxLost], "others")
			}
			if h.lacking = append(h.lacking, n); len(h.lacking) <= maxNamed {
				l.warn(n.place(), "%s has no limit for %s, unlike %s at %s: matching does not backtrack. "+
					"Repeat here the rate_limit and descriptors that you need; if you need none, write rate_limit: {unlimited: true} and below: true",
					n.way(), strings.Join(lost, ", "), general.way(), general.place())
			}
			break
		}
	}
	if more := len(h.lacking) - maxNamed; more > 0 {
		first := h.lacking[maxNamed]
		l.warn(first.place(), "%s and %d of the rules after it lack limits that a more general one beside them has, too", first.way(), more-1)
	}
}

// hiddenBy returns the nodes to which values of a node would lead if it were not
// there, as far as that is soon found out. A wildcard is a value of those that match its
// very text: a '*' in that text then lies where any run of characters may.
func (h *hiding) hiddenBy(v valued) (generals []*node) {
	if p := v.parent.patterns[v.entry.Key]; p != nil && p.compared < 0 {
		return nil // they are too many
	}
	seen := map[*node]bool{}
	for _, value := range v.values {
		runtime.Gosched()
		found := false
		for other := range v.parent.all(limiter.Entry{Key: v.entry.Key, Value: value}, &h.work) {
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

// isLimited reports whether there is a rule, and a limit of it that counts.
func (r *Rule) isLimited() bool {
	return r != nil && slices.ContainsFunc(r.Limits, func(l *limiter.Limit) bool { return !l.Unlimited })
}

// lost appends to list the ways from general to limits for which specific has
// none, until there are more than are named. way is the one to both.
func (h *hiding) lost(list []string, specific, general *node, way string) []string {
	own := specific.rule
	if own != nil && own.below {
		return list // its limits hold for all that it lacks
	}
	if limited := general.rule.isLimited(); limited && general.rule.below {
		list = append(list, "longer descriptors")
	} else if own == nil && limited {
		list = append(list, way)
	}
	if specific.keyless.isLimited() {
		return list
	}
	if general.keyless.isLimited() {
		list = append(list, "what no rule below it matches")
	}
	for _, child := range general.children {
		if !h.work.take(aNode) || len(list) > maxLost {
			break
		}
		if !child.limited {
			continue
		}
		below := strings.TrimPrefix(way+"|"+Spell(child.named()), "itself|")
		if same, known := specific.same(child, &h.work); !known {
			continue
		} else if same == nil {
			list = append(list, below)
		} else {
			list = h.lost(list, same, child, below)
		}
	}
	return list
}

// same returns the child of n that an entry for other, the child of another node,
// leads to, or nil. That is not always known for what a regular expression matches.
func (n *node) same(other *node, work *Work) (child *node, known bool) {
	e, p := other.entry, n.patterns[other.entry.Key]
	switch {
	case other.how == ByNetwork:
		e.Value, _, _ = strings.Cut(e.Value, "/") // its first address
	case other.how == ByRegex && p != nil:
		child = p.sameRegex(e.Value)
		return child, child != nil
	case other.how == ByRegex:
		e.Value = ""
	}
	child = n.next(e, work)
	return child, *work >= 0
}
