package descriptors

import (
	"net/netip"
	"slices"
	"strings"

	"weir/internal/limiter"
)

// The search for a rule never goes back. So what a more general node has below it
// is lost for the values that lead to a more specific one, unless that has it, too.

const (
	// maxNamed is how many nodes are named that lack what a more general one has.
	// Further ones are only counted.
	maxNamed = 100
	// maxLost is how many of the limits that one of them lacks are named.
	maxLost = 3
	// maxSteps bounds how many nodes are compared. Few specific nodes have many
	// children and all that the general one has, so most trees take far less.
	maxSteps = 200_000
)

// hiding looks for limits that specific nodes hide.
type hiding struct {
	*compiler
	steps   int
	limited map[*node][]*node // by node: children that lead to limits, in order
	lacking int               // nodes that lack limits
	unnamed *node             // the first of them that is not named
}

// warnOfHidden warns of limits that no request reaches for some values, and of
// nodes that it reaches for none.
func (c *compiler) warnOfHidden() {
	h := hiding{compiler: c, limited: make(map[*node][]*node)}
	for _, n := range c.valued {
		c.opts.Pause()
		switch general := n.hides(); {
		case general == nil:
		case n.matchesAll(): // what it hides is never reached; of wildcards warnIfHidden tells
			if general.entry.Value == "" {
				c.warn(c.defined[general], "never reached, %s at %s matches every value", n.entry.Value, c.defined[n])
			}
		case !n.isFree():
			h.compare(n, general)
		}
	}
	if more := h.lacking - maxNamed; more > 0 {
		c.warn(c.defined[h.unnamed], "%s and, of the rules that follow, %d more have no limit for what a more general one beside them has one for", h.unnamed.way(), more-1)
	}
}

// hides returns the node to which the values of n would lead if n were not there,
// nil if there is none, if n is never reached itself, or if there are too many
// wildcards to find out.
func (n *node) hides() *node {
	if w := n.parent.wildcards[n.entry.Key]; w != nil {
		if w.count > maxCompared || isWildcard(n.entry.Value) && w.find(n.entry.Value, nil) != n {
			return nil
		}
		if wider := w.find(n.entry.Value, n); wider != nil {
			return wider
		}
	}
	return n.parent.children[limiter.Entry{Key: n.entry.Key}]
}

// matchesAll reports whether n is a wildcard for all values.
func (n *node) matchesAll() bool {
	return n.entry.Value != "" && strings.Trim(n.entry.Value, "*") == ""
}

// isFree reports whether n says that what it matches has no limit, such as a
// whitelist entry. What it hides is not lost by mistake.
func (n *node) isFree() bool { return len(n.children) == 0 && !n.isLimited() }

// isLimited reports whether n has a limit itself.
func (n *node) isLimited() bool {
	return n.rule != nil && slices.ContainsFunc(n.rule.Limits, func(l *limiter.Limit) bool { return !l.Unlimited })
}

// leadsToLimit reports whether n or a node below it has a limit.
func (n *node) leadsToLimit() bool {
	if n.isLimited() {
		return true
	}
	for _, child := range n.children {
		if child.leadsToLimit() {
			return true
		}
	}
	return false
}

// compare warns of the limits of general, and of the nodes below it, that specific
// beside it lacks.
func (h *hiding) compare(specific, general *node) {
	lost := h.lost(nil, specific, general, "itself")
	if len(lost) == 0 {
		return
	}
	if h.lacking++; h.lacking > maxNamed {
		if h.unnamed == nil {
			h.unnamed = specific
		}
		return
	}
	if len(lost) > maxLost {
		lost = append(lost[:maxLost], "others")
	}
	h.warn(h.defined[specific], "%s has no limit for %s, unlike %s at %s: the search does not go back, so give it here, too",
		specific.way(), strings.Join(lost, ", "), general.way(), h.defined[general])
}

// lost appends to list the ways from general to limits for which specific has
// none, until there are more than are named. way is the one to both.
func (h *hiding) lost(list []string, specific, general *node, way string) []string {
	if specific.rule == nil && general.isLimited() {
		list = append(list, way)
	}
	for _, child := range h.limitedChildren(general) {
		if h.steps > maxSteps && len(specific.children) > 0 || len(list) > maxLost {
			break
		}
		h.steps++
		below := strings.TrimPrefix(way+"|"+Spell(child.entry), "itself|")
		if same := specific.next(child.entry); same == nil {
			list = append(list, below)
		} else if !same.isFree() {
			list = h.lost(list, same, child, below)
		}
	}
	return list
}

func (h *hiding) limitedChildren(n *node) []*node {
	list, known := h.limited[n]
	if !known {
		for _, e := range n.list() {
			if child := n.children[e]; child.leadsToLimit() {
				list = append(list, child)
			}
		}
		h.limited[n] = list
	}
	return list
}

// warnOfMeaning warns of a key or a value that does not mean what it seems to.
func (b *branch) warnOfMeaning(config *descriptorConfig) {
	key, value := config.key, config.value
	if prefix, isPattern := strings.CutSuffix(key, "*"); isPattern && value == "" {
		b.WarnIn("key", config.at, "only the key %q itself matches, not every key that begins with %q as in envoyproxy/ratelimit: a * is a wildcard in values only", key, prefix)
	}
	network, err := netip.ParsePrefix(value)
	switch {
	case err != nil:
	case key != maskedAddress:
		b.WarnIn("value", config.at, "%q is a text, not a range of addresses: let Envoy send the network of an address, with its action %s and the key of that name", value, maskedAddress)
	case network != network.Masked():
		b.WarnIn("value", config.at, "never reached, Envoy sends networks as %q", network.Masked())
	}
}

// maskedAddress is Envoy's action that sends the network of an address, and its key.
const maskedAddress = "masked_remote_address"

// hidden finds a node that would lead entries to a rule if a more specific one did
// not hide it, the one furthest from the domain. nodes are those that entries led
// to, from the domain on.
func hidden(nodes []*node, entries []limiter.Entry) *Hidden {
	for i := min(len(nodes)-2, len(entries)-1); i >= 0; i-- {
		parent, hider, e := nodes[i], nodes[i+1], entries[i]
		for _, general := range parent.others(e, hider) {
			if way := general.follow(entries[i+1:]); way != nil {
				return &Hidden{By: hider.entry, General: general.entry, Way: way[1:]}
			}
		}
	}
	return nil
}

// others are the children that e could lead to if it did not lead to n, which is
// more specific.
func (n *node) others(e limiter.Entry, taken *node) (list []*node) {
	if w := n.wildcards[e.Key]; w != nil {
		if child := w.find(e.Value, taken); child != nil {
			list = append(list, child)
		}
	}
	if child := n.children[limiter.Entry{Key: e.Key}]; child != nil && child != taken {
		list = append(list, child)
	}
	return list
}

// follow returns n and what entries lead to from there on, nil if that is no rule.
func (n *node) follow(entries []limiter.Entry) []limiter.Entry {
	way := []limiter.Entry{n.entry}
	for _, e := range entries {
		if n = n.next(e); n == nil {
			return nil
		}
		way = append(way, n.entry)
	}
	if n.rule == nil {
		return nil
	}
	return way
}
