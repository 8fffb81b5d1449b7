package envoyconfig

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

// node is a value of the file, with the way to it. The zero node stands for a value
// that is not there, of which all methods return nothing.
type node struct {
	yaml *yaml.Node // no alias
	up   *node
	step strictyaml.Step
}

// at returns a value of n.
func (n node) at(value *yaml.Node, step strictyaml.Step) node {
	for value.Kind == yaml.AliasNode {
		value = value.Alias // which is no alias itself
	}
	if strictyaml.IsNull(value) {
		return node{}
	}
	return node{yaml: value, up: &n, step: step}
}

// exists reports whether the value is there and not null.
func (n node) exists() bool { return n.yaml != nil }

// isMapping reports whether the value is a mapping.
func (n node) isMapping() bool { return n.exists() && n.yaml.Kind == yaml.MappingNode }

// get returns a field of a mapping, whose name in the file is that of the message's
// definition, some_name, or that of its JSON, someName.
func (n node) get(name string) node {
	if !n.isMapping() {
		return node{}
	}
	other := camelCase(name)
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		if key := n.yaml.Content[i].Value; key == name || key == other {
			return n.at(n.yaml.Content[i+1], strictyaml.Step{Field: key})
		}
	}
	return node{}
}

// items returns the items of a list, which may be null.
func (n node) items() (items []node) {
	if !n.exists() || n.yaml.Kind != yaml.SequenceNode {
		return nil
	}
	for i, item := range n.yaml.Content {
		items = append(items, n.at(item, strictyaml.Step{Index: i}))
	}
	return items
}

// pairs returns the fields of a mapping, in order.
func (n node) pairs() (names []string, values []node) {
	for i := 0; n.isMapping() && i+1 < len(n.yaml.Content); i += 2 {
		key := n.yaml.Content[i].Value
		names = append(names, key)
		values = append(values, n.at(n.yaml.Content[i+1], strictyaml.Step{Field: key}))
	}
	return names, values
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
	value, ok := scalarBool(n.yaml)
	return ok && value
}

// path returns the way to the value, such as static_resources.listeners[0].
func (n node) path() string {
	if n.up == nil {
		return ""
	}
	above := n.up.path()
	switch {
	case n.step.Field == "":
		return fmt.Sprintf("%s[%d]", above, n.step.Index)
	case above == "":
		return n.step.Field
	default:
		return above + "." + n.step.Field
	}
}

// camelCase returns the name in JSON of a field.
func camelCase(name string) string {
	if !strings.Contains(name, "_") {
		return name
	}
	var b strings.Builder
	upper := false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			upper = true
			continue
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(c)
	}
	return b.String()
}

// without returns a mapping without a field.
func (n node) without(name string) node {
	if !n.isMapping() {
		return n
	}
	mapping := *n.yaml
	mapping.Content = nil
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		if n.yaml.Content[i].Value != name {
			mapping.Content = append(mapping.Content, n.yaml.Content[i], n.yaml.Content[i+1])
		}
	}
	n.yaml = &mapping
	return n
}
