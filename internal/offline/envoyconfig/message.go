package envoyconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

// used has the fields that are read of messages with much else, by the field that leads to the message. Others are
// ignored: a newer Envoy may have fields that are unknown here. Of all other messages unknown fields are problems.
var used = map[string][]string{
	"route_config":      {"virtual_hosts", "vhds", "ignore_port_in_host_matching", "typed_per_filter_config"},
	"virtual_hosts":     {"domains", "routes", "matcher", "require_tls", "rate_limits", "typed_per_filter_config"},
	"routes":            {"match", "route", "typed_per_filter_config"},
	"route":             {"cluster", "weighted_clusters", "rate_limits", "include_vh_rate_limits"},
	"weighted_clusters": {"clusters"},
	"clusters":          {"typed_per_filter_config"},
}

// message reads a value into a message, and reports whether that went well. From then on r.at knows where the message and
// all messages in it are. field is the one in which such a message usually is. What is in an Any is not read.
func (r *reader) message(n *node, field string, m proto.Message) bool {
	var w jsonText
	w.write(n, field)
	if err := protojson.Unmarshal(w.Bytes(), m); err != nil {
		at, text := w.locate(n, err)
		r.problem(at, "%s", text)
		return false
	}
	r.link(n, m.ProtoReflect())
	return true
}

// jsonText is a message as JSON. Each value and each name of a field begins a line, so that the lines in
// errors lead to their locations in the file.
type jsonText struct {
	bytes.Buffer
	lines []*node // what each is, from the second on
}

func (w *jsonText) begin(n *node) {
	w.WriteByte('\n')
	w.lines = append(w.lines, n)
}

// write writes a value, to which a field leads.
func (w *jsonText) write(n *node, field string) {
	w.begin(n)
	separator := ""
	switch {
	case len(w.lines) > 1 && n.get("@type") != nil:
		w.WriteString("{}")
	case n.yaml.Kind == yaml.MappingNode:
		w.WriteByte('{')
		for _, child := range n.children {
			if fields := used[field]; child.field == "@type" || fields != nil && !slices.Contains(fields, child.field) {
				continue
			}
			w.WriteString(separator)
			w.begin(child)
			w.Write(quoted(child.step.Field))
			w.WriteByte(':')
			w.write(child, child.field)
			separator = ","
		}
		w.WriteByte('}')
	case n.yaml.Kind == yaml.SequenceNode:
		w.WriteByte('[')
		for _, item := range n.children {
			w.WriteString(separator)
			w.write(item, field)
			separator = ","
		}
		w.WriteByte(']')
	default:
		w.Write(scalar(n.yaml))
	}
}

// link notes where a message is, and all messages in it.
func (r *reader) link(n *node, m protoreflect.Message) {
	r.at[m.Interface()] = n
	for _, child := range n.children {
		field := m.Descriptor().Fields().ByName(protoreflect.Name(child.field))
		if field == nil || field.Message() == nil || !m.Has(field) {
			continue
		}
		switch value := m.Get(field); {
		case field.IsMap() && field.MapValue().Message() == nil:
		case field.IsMap():
			for _, entry := range child.children {
				r.link(entry, value.Map().Get(protoreflect.ValueOfString(entry.step.Field).MapKey()).Message())
			}
		case field.IsList():
			for i, item := range child.children {
				r.link(item, value.List().Get(i).Message())
			}
		default:
			r.link(child, value.Message())
		}
	}
}

// scalar returns a scalar of YAML as JSON, as Envoy understands it: with booleans in the words of older YAML.
func scalar(n *yaml.Node) []byte {
	var value any = n.Value
	if b, ok := strictyaml.Boolean(n); ok {
		value = b
	} else if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" || tag == "!!null" {
		_ = n.Decode(&value)
	}
	text, err := json.Marshal(value)
	if err != nil { // infinite
		return quoted(n.Value)
	}
	return text
}

func quoted(s string) []byte {
	b, _ := json.Marshal(s) // of a string it does not fail
	return b
}

// position finds the line in an error of protojson, which writes one of two kinds of blanks
// so that programs do not rely on its texts. Without a match the location is that of the message.
var position = regexp.MustCompile(`^proto:[\s\x{a0}](?:syntax error[\s\x{a0}])?(?:\(line (\d+):\d+\): )?(.*)$`)

// locate returns what an error is about, and its text with a hint.
func (w *jsonText) locate(message *node, err error) (at *node, text string) {
	at, text = message, err.Error()
	if found := position.FindStringSubmatch(text); found != nil {
		text = found[2]
		if line, _ := strconv.Atoi(found[1]); line >= 2 {
			at = w.lines[line-2]
		}
	}
	if _, ok := strictyaml.Boolean(at.yaml); ok && strings.Contains(text, "string") {
		text += fmt.Sprintf("; Envoy reads %s as a boolean, put it in quotes", at.yaml.Value)
	}
	return at, text
}

// typeOf returns the type of what is in an Any.
func (r *reader) typeOf(m proto.Message) string {
	name, _ := r.at[m].typed()
	return name
}
