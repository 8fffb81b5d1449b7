package envoyconfig

import (
	"fmt"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

const (
	maxDepth  = 100       // of values in each other
	maxValues = 2_000_000 // of a file, with those that aliases repeat
)

// node is a value of the file. A field that is null is not there, and nil stands for what is not
// there: all methods of it return nothing.
type node struct {
	yaml     *yaml.Node // no alias
	up       *node
	step     strictyaml.Step
	field    string  // the name of a field as messages define it: some_name, also of someName
	children []*node // fields or items, in order
}

// node reads a value of the file, unless there are problems.
func (r *reader) node(y *yaml.Node, up *node, step strictyaml.Step, depth int) *node {
	for y.Kind == yaml.AliasNode {
		y = y.Alias
	}
	n := &node{yaml: y, up: up, step: step, field: snakeCase(step.Field)}
	r.values++
	switch {
	case len(r.Problems) > 0:
		return n
	case depth > maxDepth:
		r.problem(n, "nested too deep, at most %d levels are allowed", maxDepth)
	case r.values > maxValues:
		r.problem(n, "aliases repeat too much, at most %d values are allowed", maxValues)
	}
	if y.Kind == yaml.SequenceNode {
		for i, item := range y.Content {
			n.children = append(n.children, r.node(item, n, strictyaml.Step{Index: i}, depth+1))
		}
	}
	for i := 0; y.Kind == yaml.MappingNode && i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Tag == "!!merge" {
			r.problem(&node{yaml: key, up: up, step: step}, "<< is not supported, write out the fields")
		}
		if !strictyaml.IsNull(value) {
			n.children = append(n.children, r.node(value, n, strictyaml.Step{Field: key.Value}, depth+1))
		}
	}
	return n
}

// snakeCase returns the name of a field by its name in JSON.
func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// get returns a field of a mapping.
func (n *node) get(field string) *node {
	if n == nil || n.yaml.Kind != yaml.MappingNode {
		return nil
	}
	for _, child := range n.children {
		if child.field == field {
			return child
		}
	}
	return nil
}

// items returns the items of a list.
func (n *node) items() []*node {
	if n == nil || n.yaml.Kind != yaml.SequenceNode {
		return nil
	}
	return n.children
}

// visit calls f with the value and, as long as f returns true for what they are in, with all values in it.
func (n *node) visit(f func(*node) bool) {
	if f(n) {
		for _, child := range n.children {
			child.visit(f)
		}
	}
}

// text returns the text of a scalar.
func (n *node) text() string {
	if n == nil || n.yaml.Kind != yaml.ScalarNode {
		return ""
	}
	return n.yaml.Value
}

// isTrue reports whether the value is true.
func (n *node) isTrue() bool {
	if n == nil {
		return false
	}
	value, ok := strictyaml.Boolean(n.yaml)
	return ok && value
}

// path returns the way to the value, such as static_resources.listeners[0].
func (n *node) path() string {
	switch {
	case n.up == nil:
		return ""
	case n.step.Field == "":
		return fmt.Sprintf("%s[%d]", n.up.path(), n.step.Index)
	default:
		return strings.TrimPrefix(n.up.path()+"."+n.step.Field, ".")
	}
}

// typed returns the type of an Any, without the host before it, and its value, also of one in a TypedStruct.
func (n *node) typed() (name string, value *node) {
	after := func(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
	name = after(n.get("@type").text())
	if name == "udpa.type.v1.TypedStruct" || name == "xds.type.v3.TypedStruct" {
		return after(n.get("type_url").text()), n.get("value")
	}
	return name, n
}
