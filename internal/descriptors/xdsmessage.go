package descriptors

import (
	"maps"
	"slices"
	"strconv"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

// messageWriter writes a message as the YAML nodes of a file that says the same,
// so that the decoder of files judges both. The nodes have no position. Its
// problems are the fields that it does not know.
type messageWriter struct {
	strictyaml.Reporter
	pause func() // is called for every descriptor, see Options
}

func (w *messageWriter) config(m *ratelimit.RateLimitConfig) *yaml.Node {
	n := w.mapping(m)
	putText(n, "name", m.GetName())
	putText(n, "domain", m.GetDomain())
	putList(w, n, "descriptors", m.GetDescriptors(), w.descriptor)
	return n
}

func (w *messageWriter) descriptor(m *ratelimit.RateLimitDescriptor) *yaml.Node {
	w.pause()
	n := w.mapping(m)
	putText(n, "key", m.GetKey())
	putText(n, "value", m.GetValue())
	putFlag(n, "shadow_mode", m.GetShadowMode())
	putFlag(n, "quota_mode", m.GetQuotaMode())
	putFlag(n, "detailed_metric", m.GetDetailedMetric())
	if limit := m.GetRateLimit(); limit != nil {
		w.Enter(strictyaml.Step{Field: "rate_limit"})
		put(n, "rate_limit", w.limit(limit))
		w.Leave()
	}
	if metadata := m.GetMetadata(); metadata != nil {
		put(n, "metadata", structNode(metadata))
	}
	putList(w, n, "descriptors", m.GetDescriptors(), w.descriptor)
	return n
}

func (w *messageWriter) limit(m *ratelimit.RateLimitPolicy) *yaml.Node {
	n := w.mapping(m)
	if m.GetUnit() != ratelimit.RateLimitUnit_UNKNOWN {
		putText(n, "unit", m.GetUnit().String()) // of an unknown one, its number
	}
	putFlag(n, "unlimited", m.GetUnlimited())
	if !m.GetUnlimited() || m.GetRequestsPerUnit() > 0 {
		put(n, "requests_per_unit", scalar("!!int", strconv.FormatUint(uint64(m.GetRequestsPerUnit()), 10)))
	}
	putText(n, "name", m.GetName())
	putList(w, n, "replaces", m.GetReplaces(), w.replace)
	return n
}

func (w *messageWriter) replace(m *ratelimit.RateLimitReplace) *yaml.Node {
	n := w.mapping(m)
	putText(n, "name", m.GetName())
	return n
}

// putList adds a field with the items of a list unless it is empty.
func putList[M any](w *messageWriter, mapping *yaml.Node, field string, list []M, write func(M) *yaml.Node) {
	if len(list) == 0 {
		return
	}
	items := &yaml.Node{Kind: yaml.SequenceNode}
	put(mapping, field, items)
	w.Enter(strictyaml.Step{Field: field})
	defer w.Leave()
	for i, m := range list {
		w.Enter(strictyaml.Step{Index: i})
		items.Content = append(items.Content, write(m))
		w.Leave()
	}
}

// mostUnknown bounds how many unknown fields of a resource are reported.
const mostUnknown = 20

// mapping returns an empty mapping for the current message. It reports the fields
// that are not part of its type here, each number once.
func (w *messageWriter) mapping(m proto.Message) *yaml.Node {
	rest := m.ProtoReflect().GetUnknown()
	for len(rest) > 0 && len(w.Problems) < mostUnknown {
		number, _, size := protowire.ConsumeField(rest)
		if size < 0 {
			break // Unmarshal lets no such bytes pass
		}
		w.Problem(strictyaml.Position{}, "field %d of %s is not known", number, m.ProtoReflect().Descriptor().Name())
		rest = rest[size:]
	}
	return &yaml.Node{Kind: yaml.MappingNode}
}

func structNode(m *structpb.Struct) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(m.GetFields())) {
		n.Content = append(n.Content, scalar("!!str", name), valueNode(m.GetFields()[name]))
	}
	return n
}

func valueNode(v *structpb.Value) *yaml.Node {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		return structNode(kind.StructValue)
	case *structpb.Value_ListValue:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range kind.ListValue.GetValues() {
			n.Content = append(n.Content, valueNode(item))
		}
		return n
	case *structpb.Value_StringValue:
		text := scalar("!!str", kind.StringValue)
		text.Style = yaml.DoubleQuotedStyle // "yes" is a text here, not a boolean of YAML
		return text
	case *structpb.Value_NumberValue:
		return scalar("!!float", strconv.FormatFloat(kind.NumberValue, 'g', -1, 64))
	case *structpb.Value_BoolValue:
		return scalar("!!bool", strconv.FormatBool(kind.BoolValue))
	default:
		return scalar("!!null", "null")
	}
}

// fieldNames are the nodes of the names of all fields. They are shared, because a
// large message would need hundreds of thousands.
var fieldNames = func() map[string]*yaml.Node {
	nodes := make(map[string]*yaml.Node)
	for _, name := range slices.Concat(fileFields, descriptorFields, limitFields) {
		nodes[name] = scalar("!!str", name)
	}
	return nodes
}()

// put adds a field to a mapping.
func put(mapping *yaml.Node, field string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, fieldNames[field], value)
}

// putText adds a field unless it is empty.
func putText(mapping *yaml.Node, field, text string) {
	if text != "" {
		put(mapping, field, scalar("!!str", text))
	}
}

// putFlag adds a field unless it is false.
func putFlag(mapping *yaml.Node, field string, on bool) {
	if on {
		put(mapping, field, scalar("!!bool", "true"))
	}
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}
