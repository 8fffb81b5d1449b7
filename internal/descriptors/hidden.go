package descriptors

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// The search for a rule never goes back. So what a more general node has below it
// is lost for the values that lead to a more specific one, unless that has it, too.

const (
	maxNamed = 100 // nodes that lack what a more general one has; further ones are counted
	maxLost  = 3   // limits that one of them lacks are named
	// maxSteps bounds how many nodes, and regular expressions, are compared. Few specific
	// nodes have many children and all that the general one has, so most trees take far less.
	maxSteps = 200_000
)

// hiding looks for limits that specific nodes hide.
type hiding struct {
	*loader
	steps   int               // nodes compared
	tried   int               // regular expressions
	limited map[*node][]*node // by node: children that lead to limits, in order
	lacking []*node           // that lack limits
}

// valued is a node that is not for any value, and the items of its list, if it has one.
type valued struct {
	*node
	values   []string
	networks []netip.Prefix
}

// warnOfHidden warns of limits that no request reaches for some values, and of
// nodes for any value that it reaches for none.
func (l *loader) warnOfHidden() {
	h := hiding{loader: l, limited: make(map[*node][]*node)}
	for _, v := range l.valued {
		l.opts.Pause()
		switch n := v.node; {
		case n.matchesAll:
			if general := n.parent.exact[limiter.Entry{Key: n.entry.Key}]; general != nil {
				l.warn(general.place(), "never reached, %s at %s matches every value", n.value(), n.place())
			}
		default:
			for _, general := range h.hiddenBy(v) {
				if lost := h.lost(nil, n, general, "itself"); len(lost) > 0 {
					h.warnOfLost(n, general, lost)
					break
				}
			}
		}
	}
	if more := len(h.lacking) - maxNamed; more > 0 {
		first := h.lacking[maxNamed]
		l.warn(first.place(), "%s and %d of the rules after it lack limits that a more general one beside them has, too", first.way(), more-1)
	}
}

// hiddenBy returns the nodes to which values of a node would lead if it were not
// there, as far as that is soon found out.
func (h *hiding) hiddenBy(v valued) (generals []*node) {
	n, p, anyValue := v.node, v.parent.patterns[v.entry.Key], v.parent.exact[limiter.Entry{Key: v.entry.Key}]
	add := func(general *node) {
		if general != nil && !slices.Contains(generals, general) {
			generals = append(generals, general)
		}
	}
	wildcard := func(value string) { add(cmp.Or(p.wildcards.find(value, n.order+1), anyValue)) }
	text := func(value string) {
		if h.tried += len(p.regexes); h.tried > maxSteps {
			return
		}
		for _, other := range n.parent.all(limiter.Entry{Key: n.entry.Key, Value: value}) {
			if other != n {
				add(other)
				return
			}
		}
	}
	switch {
	case p == nil || n.how == ByRegex: // what an expression has in common with others is not known
		add(anyValue)
	case p.count > maxCompared:
	case n.how == ByValue:
		text(n.entry.Value)
	case n.how == ByList:
		for _, value := range v.values {
			h.opts.Pause()
			if isWildcard(value) {
				wildcard(value)
			} else {
				text(value)
			}
		}
	case n.how == ByNetwork:
		for _, network := range v.networks {
			h.opts.Pause()
			add(cmp.Or(p.wider(network, n), anyValue))
		}
	default:
		wildcard(n.entry.Value)
	}
	return generals
}

// wider returns the child other than n with the longest prefix of those that hold a
// network, or nil.
func (p *patterns) wider(network netip.Prefix, n *node) *node {
	for _, other := range p.networks.Supernets(network) {
		if other != n {
			return other
		}
	}
	return nil
}

// isLimited reports whether n has a limit itself.
func (n *node) isLimited() bool {
	return n.rule.isLimited()
}

// isLimited reports whether there is a rule, and a limit of it that counts.
func (r *Rule) isLimited() bool {
	return r != nil && slices.ContainsFunc(r.Limits, func(l *limiter.Limit) bool { return !l.Unlimited })
}

// leadsToLimit reports whether n or a node below it has a limit.
func (n *node) leadsToLimit() bool {
	if n.isLimited() || n.keyless.isLimited() {
		return true
	}
	return slices.ContainsFunc(n.children, (*node).leadsToLimit)
}

// warnOfLost warns of limits of general, and of the nodes below it, that specific beside
// it lacks.
func (h *hiding) warnOfLost(specific, general *node, lost []string) {
	if h.lacking = append(h.lacking, specific); len(h.lacking) > maxNamed {
		return
	}
	if len(lost) > maxLost {
		lost = append(lost[:maxLost], "others")
	}
	h.warn(specific.place(), "%s has no limit for %s, unlike %s at %s: matching does not backtrack, so repeat here what you need",
		specific.way(), strings.Join(lost, ", "), general.way(), general.place())
}

// lost appends to list the ways from general to limits for which specific has
// none, until there are more than are named. way is the one to both.
func (h *hiding) lost(list []string, specific, general *node, way string) []string {
	own := specific.rule
	if own != nil && own.below {
		return list // its limits hold for all that it lacks
	}
	if general.isLimited() && general.rule.below {
		list = append(list, "longer descriptors")
	} else if own == nil && general.isLimited() {
		list = append(list, way)
	}
	if specific.keyless.isLimited() {
		return list
	}
	if general.keyless.isLimited() {
		list = append(list, "what no rule below it matches")
	}
	for _, child := range h.limitedChildren(general) {
		if h.steps > maxSteps && len(specific.children) > 0 || len(list) > maxLost {
			break
		}
		h.steps++
		below := strings.TrimPrefix(way+"|"+Spell(child.named()), "itself|")
		if same, known := specific.same(child); !known {
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
func (n *node) same(other *node) (child *node, known bool) {
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
	return n.next(e), true
}

func (h *hiding) limitedChildren(n *node) []*node {
	list, known := h.limited[n]
	if !known {
		for _, child := range n.sorted() {
			if child.leadsToLimit() {
				list = append(list, child)
			}
		}
		h.limited[n] = list
	}
	return list
}
