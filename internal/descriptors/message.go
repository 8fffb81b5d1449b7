package descriptors

import (
	"maps"
	"runtime"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

// mostUnknown limits the number of unknown fields that are reported for one resource.
const mostUnknown = 20

// message returns a message of a control plane as the YAML nodes of an equivalent file, so that one
// decoder checks messages and files. The nodes have no position. message warns of unknown fields.
func (d *decoder) message(m protoreflect.Message) *yaml.Node {
	runtime.Gosched()
	rest := m.GetUnknown()
	for len(rest) > 0 && len(d.Warnings) < mostUnknown {
		number, _, size := protowire.ConsumeField(rest)
		d.Warn(strictyaml.Position{}, "field %d of %s is unknown and ignored", number, m.Descriptor().Name())
		rest = rest[size:]
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.Name())
		// An unset amount means 0, unless the limit is unlimited.
		isAmount := name == "requests_per_unit" && !m.Get(fields.ByName("unlimited")).Bool()
		if m.Has(f) || isAmount {
			d.Enter(strictyaml.Step{Field: name})
			n.Content = append(n.Content, scalar("!!str", name), d.messageField(f, m.Get(f)))
			d.Leave()
		}
	}
	return n
}

func (d *decoder) messageField(f protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	if !f.IsList() {
		return d.messageValue(f, v)
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.List().Len() {
		d.Enter(strictyaml.Step{Index: i})
		n.Content = append(n.Content, d.messageValue(f, v.List().Get(i)))
		d.Leave()
	}
	return n
}

func (d *decoder) messageValue(f protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if m, ok := v.Message().Interface().(*structpb.Struct); ok {
			return jsonNode(m.AsMap())
		}
		return d.message(v.Message())
	case protoreflect.EnumKind:
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
			return scalar("!!str", string(value.Name()))
		}
	case protoreflect.BoolKind, protoreflect.Uint32Kind:
		return scalar("", v.String()) // the decoder finds the tag
	}
	return scalar("!!str", v.String())
}

// jsonNode returns the node of a value in metadata. It encodes texts itself, because the YAML
// library would lose line breaks.
func jsonNode(value any) *yaml.Node {
	n := new(yaml.Node)
	switch v := value.(type) {
	case map[string]any:
		n.Kind = yaml.MappingNode
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, scalar("!!str", name), jsonNode(v[name]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, item := range v {
			n.Content = append(n.Content, jsonNode(item))
		}
	case string:
		n = scalar("!!str", v)
		n.Style = yaml.DoubleQuotedStyle // otherwise, the decoder would read "yes" as a boolean
	default:
		_ = n.Encode(v) // never fails for a number, a boolean or null
	}
	return n
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}
