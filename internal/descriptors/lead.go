package descriptors

import (
	"fmt"

	"github.com/gaissmai/bart"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// twin returns the child that stands where n, which is not yet one, is to stand, or
// nil. A list has none: its items may, see lead.
func (n *node) twin() *node {
	switch n.how {
	case ByList, ByNetwork:
		return nil
	case ByRegex:
		return n.parent.patternsOf(n.entry.Key).sameRegex(n.entry.Value)
	default:
		return n.parent.exact[n.entry]
	}
}

// patternsOf returns the patterns of a key, which may be new.
func (n *node) patternsOf(key string) *patterns {
	if n.patterns[key] == nil {
		if n.patterns == nil {
			n.patterns = make(map[string]*patterns)
		}
		n.patterns[key] = new(patterns)
	}
	return n.patterns[key]
}

// lead makes n a child of its parent, to which what config says leads.
func (b *branch) lead(n *node, config *descriptorConfig) {
	parent, m := n.parent, config.matcher
	parent.children = append(parent.children, n)
	switch n.how {
	case ByList:
		b.listed(n, m)
	case ByNetwork:
		b.networks(n, m)
	case ByRegex:
		p := parent.patternsOf(n.entry.Key)
		if m.regex == nil { // which is a problem already
			return
		}
		if p.addText(n, m); p.steps > maxRegexSteps {
			b.ProblemIn("regex", m.at, "%s", tooManySteps(p.steps))
		}
	case ByWildcard:
		parent.patternsOf(n.entry.Key).addText(n, m)
		fallthrough // its text leads there, too
	default:
		parent.exact[n.entry] = n
	}
}

// listed lets each value of a list lead to n.
func (b *branch) listed(n *node, m *matcher) {
	b.Enter(strictyaml.Step{Field: "values"})
	defer b.Leave()
	for _, v := range m.values {
		b.compiler.opts.Pause()
		e := limiter.Entry{Key: n.entry.Key, Value: v.item}
		if twin := n.parent.exact[e]; twin != nil {
			b.repeated(v.index, v.at, n, twin, fmt.Sprintf("value %q", v.item))
		}
		n.parent.exact[e] = n
	}
}

// networks lets each network lead to n.
func (b *branch) networks(n *node, m *matcher) {
	b.Enter(strictyaml.Step{Field: "networks"})
	defer b.Leave()
	p := n.parent.patternsOf(n.entry.Key)
	if p.networks == nil {
		p.networks = new(bart.Table[*node])
	}
	for _, v := range m.networks {
		b.compiler.opts.Pause()
		if twin, is := p.networks.Get(v.item); is {
			b.repeated(v.index, v.at, n, twin, fmt.Sprintf("network %s", v.item))
		}
		p.networks.Insert(v.item, n)
	}
}

// repeated reports that an item of the list of n leads to twin, which may be n.
func (b *branch) repeated(index int, at strictyaml.Position, n, twin *node, item string) {
	b.Enter(strictyaml.Step{Index: index})
	defer b.Leave()
	if n == twin {
		b.Problem(at, "%s is repeated, allowed is once", item)
		return
	}
	b.Problem(at, "key %q with %s is already at %s, allowed is one descriptor per key and value", n.entry.Key, item, b.compiler.defined[twin])
}
