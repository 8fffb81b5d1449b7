package strictyaml

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/spelling"
)

// At returns the position of a node.
func At(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// Visit calls walk for n, the field or item s of the current node. If n is an alias, Visit calls
// walk for the node to which n refers. If nodes are nested too deeply, Visit reports a problem instead.
func (d *Decoder) Visit(s Step, n *yaml.Node, walk func(*yaml.Node)) {
	if len(d.path) >= maxDepth && n.Kind != yaml.ScalarNode {
		d.Problem(At(n), "nested too deep, at most %d levels are allowed", maxDepth)
		return
	}
	d.Enter(s)
	defer d.Leave()
	if n.Kind == yaml.AliasNode {
		if slices.Contains(d.open, n.Alias) {
			d.Problem(At(n), "alias %q refers to itself", n.Value)
			return
		}
		d.inAlias++
		defer func() { d.inAlias-- }()
		n = n.Alias
	}
	if d.inAlias > 0 {
		d.aliased++
	}
	if d.aliased > maxAliased {
		d.Problem(At(n), "aliases repeat too much, at most %d values are allowed", maxAliased)
		d.muted = true // the rest is incomplete
		return
	}
	d.open = append(d.open, n)
	walk(n)
	d.open = d.open[:len(d.open)-1]
}

// Fields visits the fields of a mapping. It reports fields that are not among allowed, and
// repeated fields. A field of the mapping itself overrides a merged field.
func (d *Decoder) Fields(n *yaml.Node, allowed []string, visit func(name string, n *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		what := Describe(n)
		if len(d.path) == 0 && n.Kind == yaml.ScalarNode {
			what = "text alone" // not quoted, because it may be a secret in the wrong directory
		}
		d.Problem(At(n), "%s is not allowed; use a mapping", what)
		return
	}
	var seen [32]bool // by index in allowed
	d.Pairs(n, false, func(key, value *yaml.Node, merged bool) {
		i := slices.Index(allowed, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode || i < 0:
			d.unknownField(key, allowed)
		case !seen[i]:
			seen[i] = true
			name := allowed[i]
			d.Visit(Step{Field: name}, value, func(n *yaml.Node) { visit(name, n) })
		case !merged:
			d.Problem(At(key), "field %q is repeated: remove one", key.Value)
		}
	})
}

// Field visits the first field of a mapping with this name, if there is one, as Fields does.
func (d *Decoder) Field(n *yaml.Node, field string, visit func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		return
	}
	found := false
	d.Pairs(n, false, func(key, value *yaml.Node, _ bool) {
		if key.Value == field && key.Kind == yaml.ScalarNode && !found {
			found = true
			d.Visit(Step{Field: field}, value, visit)
		}
	})
}

// Has reports whether a node is a mapping that has the field itself, not only through a merge.
func Has(n *yaml.Node, field string) bool {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return true
		}
	}
	return false
}

// Pairs calls visit for each key and value of n, passing on merged, and then for each key and value
// of the mappings that n merges (<<), for which merged is true.
func (d *Decoder) Pairs(n *yaml.Node, merged bool, visit func(key, value *yaml.Node, merged bool)) {
	if merged && d.inAlias > 0 {
		d.aliased += len(n.Content) / 2 // including fields that visit ignores
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Tag != "!!merge" {
			visit(key, n.Content[i+1], merged)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			d.Visit(Step{Field: "<<"}, n.Content[i+1], func(n *yaml.Node) { d.merge(n, visit) })
		}
	}
}

func (d *Decoder) merge(n *yaml.Node, visit func(key, value *yaml.Node, merged bool)) {
	switch n.Kind {
	case yaml.MappingNode:
		d.Pairs(n, true, visit)
	case yaml.SequenceNode:
		d.Items(n, func(n *yaml.Node) { d.merge(n, visit) })
	default:
		d.Problem(At(n), "%s cannot be merged; use a mapping", Describe(n))
	}
}

// Items visits the items of a list. A null node is treated as an empty list.
func (d *Decoder) Items(n *yaml.Node, visit func(*yaml.Node)) {
	switch {
	case IsNull(n):
	case n.Kind != yaml.SequenceNode:
		d.Problem(At(n), "%s is not allowed; use a list", Describe(n))
	default:
		for i, item := range n.Content {
			d.Visit(Step{Index: i}, item, visit)
		}
	}
}

// unknownField reports a field that is not among allowed, with a guess of the intended field.
func (d *Decoder) unknownField(key *yaml.Node, allowed []string) {
	if key.Kind != yaml.ScalarNode {
		d.Problem(At(key), "a field's name is required before the colon; use %s", OneOf(allowed))
		return
	}
	if message, gone := d.Gone[key.Value]; gone {
		d.Problem(At(key), "%s", message)
		return
	}
	name, _, joined := strings.Cut(key.Value, ":")
	hint := d.DidYouMean(key.Value, allowed)
	if joined && slices.Contains(allowed, name) {
		hint = " (add a space after the colon)"
	} else if hint == "" && d.Elsewhere != nil && d.Elsewhere(key.Value) != "" {
		hint = fmt.Sprintf(" (it belongs to %s)", d.Elsewhere(key.Value))
	}
	d.Problem(At(key), "unknown field %s%s; use %s", Describe(key), hint, OneOf(allowed))
}

// DidYouMean returns a hint with the allowed word that is most similar to word, or "".
func (d *Decoder) DidYouMean(word string, allowed []string) string {
	word = strings.ToLower(word)
	meant := d.Synonyms[word]
	if !slices.Contains(allowed, meant) {
		meant = spelling.Nearest(word, allowed)
	}
	if meant == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", meant)
}

// OneOf returns words as alternatives for a message.
func OneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}
