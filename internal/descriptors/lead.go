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

// lead makes n a child of its parent, to which its entry or m leads.
func (d *decoder) lead(n *node, m *matcher) {
	parent := n.parent
	parent.children = append(parent.children, n)
	switch n.how {
	case ByList:
		d.listed(n, m)
	case ByNetwork:
		d.networks(n, m)
	case ByRegex:
		p := parent.patternsOf(n.entry.Key)
		if m.regex == nil { // which is a problem already
			return
		}
		if p.addText(n, m); p.steps > maxRegexSteps {
			d.ProblemIn("regex", m.at, "%s", tooManySteps(p.steps))
		}
	case ByWildcard:
		parent.patternsOf(n.entry.Key).addText(n, m)
		fallthrough // its text leads there, too
	default:
		parent.exact[n.entry] = n
	}
}

// listed lets each value of a list lead to n.
func (d *decoder) listed(n *node, m *matcher) {
	d.Enter(strictyaml.Step{Field: "values"})
	defer d.Leave()
	for _, v := range m.values {
		d.opts.Pause()
		e := limiter.Entry{Key: n.entry.Key, Value: v.item}
		if twin := n.parent.exact[e]; twin != nil {
			d.repeated(v.index, v.at, n, twin, fmt.Sprintf("value %q", v.item))
		}
		n.parent.exact[e] = n
	}
}

// networks lets each network lead to n.
func (d *decoder) networks(n *node, m *matcher) {
	d.Enter(strictyaml.Step{Field: "networks"})
	defer d.Leave()
	p := n.parent.patternsOf(n.entry.Key)
	if p.networks == nil {
		p.networks = new(bart.Table[*node])
	}
	for _, v := range m.networks {
		d.opts.Pause()
		if twin, is := p.networks.Get(v.item); is {
			d.repeated(v.index, v.at, n, twin, fmt.Sprintf("network %s", v.item))
		}
		p.networks.Insert(v.item, n)
	}
}

// repeated reports that an item of the list of n leads to twin, which may be n.
func (d *decoder) repeated(index int, at strictyaml.Position, n, twin *node, item string) {
	d.Enter(strictyaml.Step{Index: index})
	defer d.Leave()
	if n == twin {
		d.Problem(at, "%s is repeated, allowed is once", item)
		return
	}
	d.Problem(at, "key %q with %s is already at %s, allowed is one descriptor per key and value", n.entry.Key, item, twin.place())
}
