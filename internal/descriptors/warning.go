package descriptors

import (
	"fmt"
	"maps"
	"slices"
)

// Warnings tell, sorted by place, what the rules allow and hardly mean: the
// reference takes it without a word, so it is no Problem.
func (t *Tree) Warnings() Problems { return t.warnings }

// names are what the limits of a document are called, and call each other.
type names struct {
	given    map[string]bool
	mentions []mention // in replaces
}

// mention is a name in the replaces of a limit, and where that is.
type mention struct {
	name  string
	place Problem // without message
}

// addWarnings adds the warnings of a document to those of the tree, and notes what
// can only be judged with all documents of its domain.
func (c *compiler) addWarnings(domain string, d *decoder) {
	c.tree.warnings = append(c.tree.warnings, d.Warnings...)
	n := c.names[domain]
	if n == nil {
		n = &names{given: make(map[string]bool)}
		c.names[domain] = n
	}
	maps.Copy(n.given, d.names.given)
	n.mentions = append(n.mentions, d.names.mentions...)
}

// finishWarnings warns of what the documents of a domain lack.
func (c *compiler) finishWarnings() {
	for name, root := range c.tree.domains {
		if place := c.defined[root]; len(root.children) == 0 && root.rule == nil {
			place.Path = "domain"
			c.warn(place, "the domain %q has no rules, everything is admitted", name)
		}
	}
	for domain, n := range c.names {
		for _, m := range n.mentions {
			if !n.given[m.name] {
				c.warn(m.place, "no limit of the domain %q has the name %q, so nothing is replaced", domain, m.name)
			}
		}
	}
	c.warnOfHidden()
	c.tree.warnings.Sort()
	c.tree.warnings = slices.CompactFunc(c.tree.warnings, isRepeated)
}

// isRepeated reports whether two warnings are of one place, which an alias repeats.
func isRepeated(a, b Problem) bool {
	b.Path = a.Path
	return a == b && a.Line > 0
}

func (c *compiler) warn(place Problem, format string, args ...any) {
	place.Message = fmt.Sprintf(format, args...)
	c.tree.warnings = append(c.tree.warnings, place)
}

// maxCompared bounds how many wildcards of a node and key are compared with each
// other, which takes the square of their number.
const maxCompared = 256

// warnIfHidden warns of a wildcard, or a regular expression, that an earlier one with
// the same key leaves nothing to match. An earlier wildcard does so if it matches
// the very text of a wildcard: a '*' in that text then lies where any run of
// characters may. What else a regular expression leaves is not known.
func (b *branch) warnIfHidden(n *node, config *descriptorConfig) {
	p := n.parent.patterns[n.entry.Key]
	if p == nil || n.how != ByWildcard && n.how != ByRegex {
		return
	}
	earlier := p.whole
	if earlier == nil && n.how == ByWildcard && p.count <= maxCompared {
		earlier = p.wildcards.find(n.entry.Value, 0)
	}
	if earlier != nil {
		b.Warn(config.at, "never reached, %s at %s matches all of it and comes first", earlier.value(), b.compiler.defined[earlier])
	}
}
