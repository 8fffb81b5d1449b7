package envoyconfig

import (
	"fmt"
	"iter"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

// node is a value of the file, with the way to it. Of the zero node, which stands for a value
// that is not there, and of null all methods return nothing.
type node struct {
	yaml  *yaml.Node // no alias
	up    *node
	step  strictyaml.Step
	depth int
}

// at returns a value of n.
func (n node) at(value *yaml.Node, step strictyaml.Step) node {
	for value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	return node{value, &n, step, n.depth + 1}
}

// exists reports whether the value is there and not null.
func (n node) exists() bool { return n.yaml != nil && !strictyaml.IsNull(n.yaml) }

// get returns a field of a mapping, whose name in the file is that of the message's
// definition, some_name, or that of its JSON, someName.
func (n node) get(name string) node {
	other := camelCase(name)
	for key, value := range n.fields() {
		if key == name || key == other {
			return value
		}
	}
	return node{}
}

// camelCase returns the name in JSON of a field.
func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}

// fields returns the fields of a mapping, in order.
func (n node) fields() iter.Seq2[string, node] {
	return func(yield func(string, node) bool) {
		if n.yaml == nil || n.yaml.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.yaml.Content); i += 2 {
			key := n.yaml.Content[i].Value
			if !yield(key, n.at(n.yaml.Content[i+1], strictyaml.Step{Field: key})) {
				return
			}
		}
	}
}

// items returns the items of a list.
func (n node) items() (items []node) {
	if n.yaml != nil && n.yaml.Kind == yaml.SequenceNode {
		for i, item := range n.yaml.Content {
			items = append(items, n.at(item, strictyaml.Step{Index: i}))
		}
	}
	return items
}

// visit calls f with the value and, as long as f returns true for what they are in, with all values in it. It
// gives up and returns false when budget is used up.
func (n node) visit(budget *int, f func(node) bool) bool {
	if *budget--; *budget < 0 || n.depth > maxNesting {
		return false
	}
	if !f(n) {
		return true
	}
	for _, value := range n.fields() {
		if !value.visit(budget, f) {
			return false
		}
	}
	for _, item := range n.items() {
		if !item.visit(budget, f) {
			return false
		}
	}
	return true
}

// text returns the text of a scalar.
func (n node) text() string {
	if !n.exists() || n.yaml.Kind != yaml.ScalarNode {
		return ""
	}
	return n.yaml.Value
}

// isTrue reports whether the value is true.
func (n node) isTrue() bool {
	if n.yaml == nil {
		return false
	}
	value, ok := strictyaml.Boolean(n.yaml)
	return ok && value
}

// path returns the way to the value, such as static_resources.listeners[0].
func (n node) path() string {
	switch {
	case n.up == nil:
		return ""
	case n.step.Field == "":
		return fmt.Sprintf("%s[%d]", n.up.path(), n.step.Index)
	default:
		return strings.TrimPrefix(n.up.path()+"."+n.step.Field, ".")
	}
}
