package descriptors

import (
	"fmt"
	"slices"

	"weir/internal/limiter"
)

// setHold sets the key of the entries that name holds of r: that of its own limits, or of
// the rules above whose limits hold for what it matches, too.
func (b *branch) setHold(r *Rule, config *descriptorConfig) {
	for _, l := range r.Limits {
		if key := l.HoldKey(); key != "" {
			r.Hold = key
			b.compiler.noteHold(r, key)
		}
	}
	switch above := r.Above; {
	case above == nil || above.Hold == "" || above.Hold == r.Hold:
	case r.Hold == "":
		r.Hold = above.Hold
	default:
		b.ProblemIn("hold", config.at, "%q differs from %q of %s at %s, which holds below, allowed is one entry that names holds",
			r.Hold, above.Hold, above.way(), above.Place())
	}
}

// noteHold notes that entries with a key name holds of r.
func (c *compiler) noteHold(r *Rule, key string) {
	domain := r.node.root().entry.Key
	if holds := c.tree.holds[domain]; !slices.Contains(holds, key) {
		c.tree.holds[domain] = append(holds, key)
		c.holding[limiter.Entry{Key: domain, Value: key}] = r
	}
}

// checkHolds reports the levels whose key names holds in their domain. Such an entry has
// no level, so that it can be anywhere in a descriptor.
func (c *compiler) checkHolds() {
	if len(c.holding) == 0 {
		return
	}
	for n, place := range c.defined {
		domain, key := n.root().entry.Key, n.entry.Key
		if holding := c.holding[limiter.Entry{Key: domain, Value: key}]; holding != nil && n.parent != nil {
			place.Message = fmt.Sprintf("the key %q names the holds of %s at %s, allowed is another key, or another hold there",
				key, holding.way(), holding.Place())
			c.problems = append(c.problems, place)
		}
	}
}

// root returns the node of n's domain.
func (n *node) root() *node {
	for n.parent != nil {
		n = n.parent
	}
	return n
}
