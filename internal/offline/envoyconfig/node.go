package envoyconfig

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

// node is a value of the file. Null fields are omitted. A missing value is a nil node, for which
// get, items, text and isTrue return zero values.
type node struct {
	yaml     *yaml.Node // never an alias
	up       *node
	step     strictyaml.Step
	field    string  // name of the field in the message: some_name, even if the file has someName
	children []*node // fields or items, in order
}

// node reads a value of the file and the values in it.
func (r *reader) node(y *yaml.Node, up *node, step strictyaml.Step) *node {
	n := &node{yaml: y, up: up, step: step, field: snakeCase(step.Field)}
	add := func(step strictyaml.Step, y *yaml.Node) {
		r.Visit(step, y, func(y *yaml.Node) { n.children = append(n.children, r.node(y, n, step)) })
	}
	switch y.Kind {
	case yaml.SequenceNode:
		for i, item := range y.Content {
			add(strictyaml.Step{Index: i}, item)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(y.Content); i += 2 {
			key, value := y.Content[i], y.Content[i+1]
			if key.Tag == "!!merge" {
				r.Problem(strictyaml.At(key), "<< is not supported, write out the fields")
			}
			if !strictyaml.IsNull(value) {
				add(strictyaml.Step{Field: key.Value}, value)
			}
		}
	}
	return n
}

// snakeCase returns the name of a field in its message, such as some_name. name may be its JSON name, someName.
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

// get returns the value at a path through fields of mappings, or nil.
func (n *node) get(fields ...string) *node {
	for _, field := range fields {
		if n == nil || n.yaml.Kind != yaml.MappingNode {
			return nil
		}
		i := slices.IndexFunc(n.children, func(child *node) bool { return child.field == field })
		if i < 0 {
			return nil
		}
		n = n.children[i]
	}
	return n
}

// items returns the items of a list, or nil if the value is not a list.
func (n *node) items() []*node {
	if n == nil || n.yaml.Kind != yaml.SequenceNode {
		return nil
	}
	return n.children
}

// visit calls f with the value and then visits the values in it, unless f returns false.
func (n *node) visit(f func(*node) bool) {
	if f(n) {
		for _, child := range n.children {
			child.visit(f)
		}
	}
}

// text returns the text of a scalar, or "" if the value is not a scalar.
func (n *node) text() string {
	if n == nil || n.yaml.Kind != yaml.ScalarNode {
		return ""
	}
	return n.yaml.Value
}

// isTrue reports whether the value is a boolean and true.
func (n *node) isTrue() bool {
	if n == nil {
		return false
	}
	value, ok := strictyaml.Boolean(n.yaml)
	return ok && value
}

// path returns the path to the value, such as static_resources.listeners[0].
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

// typed returns the name of an Any's type, without the URL prefix, and its value. It unpacks a TypedStruct.
func (n *node) typed() (name string, value *node) {
	after := func(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
	name = after(n.get("@type").text())
	if name == "udpa.type.v1.TypedStruct" || name == "xds.type.v3.TypedStruct" {
		return after(n.get("type_url").text()), n.get("value")
	}
	return name, n
}

// merged merges mappings as Istio merges patches. Lists are concatenated, mappings without @type are merged, and
// any other value replaces the earlier value.
func merged(values ...*node) *node {
	all := &node{yaml: &yaml.Node{Kind: yaml.MappingNode}}
	for _, value := range values {
		for _, child := range value.children {
			field := all.get(child.field)
			if field == nil {
				field = new(node)
				all.children = append(all.children, field)
			}
			before := *field
			*field = *child
			switch kind := child.yaml.Kind; {
			case before.yaml == nil || before.yaml.Kind != kind || child.get("@type") != nil:
			case kind == yaml.SequenceNode:
				field.children = append(before.children[:len(before.children):len(before.children)], child.children...)
			case kind == yaml.MappingNode:
				field.children = merged(&before, child).children
			}
		}
	}
	return all
}

// message reads a value into a message and validates the message as Envoy does. It returns false and reports a problem
// if the value is invalid. It does not read the values of Any messages.
func (r *reader) message(n *node, m interface {
	proto.Message
	Validate() error
},
) bool {
	text, err := json.Marshal(n.json())
	if err == nil {
		err = protojson.Unmarshal(text, m)
	}
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		why := beforeWhy.ReplaceAllString(err.Error(), "")
		if strings.Contains(why, "string field") && (strings.HasSuffix(why, "true") || strings.HasSuffix(why, "false")) {
			why += "; Envoy reads words such as on and no as booleans, put them in quotes"
		}
		r.problem(n, "%s", why)
	}
	return err == nil
}

// beforeWhy matches the text before the reason in an error. In an error of protojson, this is a prefix, which ends in a
// normal or no-break space, and the position in the JSON. In an error of Validate, it names the outer messages.
var beforeWhy = regexp.MustCompile(`^proto:[\s\x{a0}](?:syntax error[\s\x{a0}])?(?:\(line \d+:\d+\): )?|^.*caused by: `)

// json returns a value that encoding/json can encode. It reads words such as "on" as booleans, as YAML 1.1 does.
func (n *node) json() any {
	switch {
	case n.get("@type") != nil:
		return struct{}{}
	case n.yaml.Kind == yaml.MappingNode:
		fields := map[string]any{}
		for _, child := range n.children {
			switch old, ok := strings.CutSuffix(child.field, "_match"); {
			case ok && slices.Contains([]string{"exact", "prefix", "suffix", "contains", "safe_regex"}, old):
				fields["string_match"] = map[string]any{old: child.json()} // deprecated fields of header matchers, still in many files
			default:
				fields[child.step.Field] = child.json()
			}
		}
		return fields
	case n.yaml.Kind == yaml.SequenceNode:
		items := []any{}
		for _, item := range n.children {
			items = append(items, item.json())
		}
		return items
	}
	if value, ok := strictyaml.Boolean(n.yaml); ok {
		return value
	}
	var value any = n.yaml.Value
	if tag := n.yaml.ShortTag(); tag == "!!int" || tag == "!!float" {
		_ = n.yaml.Decode(&value)
	}
	return value
}

// number returns the whole number in n, or the second argument if n is nil. It reports an invalid number as a problem.
func (r *reader) number(n *node, otherwise uint64) uint64 {
	if n == nil {
		return otherwise
	}
	value, err := strconv.ParseUint(n.text(), 10, 32)
	if err != nil {
		r.problem(n, "a whole number is required")
	}
	return value
}
