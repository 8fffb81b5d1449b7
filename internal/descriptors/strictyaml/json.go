package strictyaml

import (
	"math"

	"gopkg.in/yaml.v3"
)

// Map returns the mapping n as encoding/json would decode it, or nil if n is null or invalid.
func (d *Decoder) Map(n *yaml.Node) map[string]any {
	if IsNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.Problem(At(n), "%s is not allowed; use a mapping", Describe(n))
		return nil
	}
	m := make(map[string]any, len(n.Content)/2)
	own := make(map[string]bool, len(n.Content)/2)
	d.Pairs(n, false, func(key, value *yaml.Node, merged bool) {
		name, ok := d.Text(key)
		switch {
		case !ok || merged && own[name]:
		case own[name]:
			d.Problem(At(key), "field %q is repeated: remove one", name)
		default:
			own[name] = true
			d.Visit(Step{Field: name}, value, func(n *yaml.Node) { m[name] = d.json(n) })
		}
	})
	return m
}

func (d *Decoder) json(n *yaml.Node) any {
	switch {
	case n.Kind == yaml.MappingNode:
		return d.Map(n)
	case n.Kind == yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		d.Items(n, func(n *yaml.Node) { list = append(list, d.json(n)) })
		return list
	case IsNull(n):
		return nil
	}
	if value, ok := Boolean(n); ok {
		return value // including yes and no, as in YAML 1.1 and envoyproxy/ratelimit
	}
	switch n.ShortTag() {
	case "!!bool":
		return d.Flag(n)
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			d.Problem(At(n), "%s is not allowed; use a number that JSON has", Describe(n))
		}
		return f
	default:
		text, _ := d.Text(n)
		return text
	}
}
