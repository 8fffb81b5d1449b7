package envoyconfig

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

// message reads a value into a message, strictly, and reports whether that went well. What
// is wrong becomes a problem at its place in the file.
func (r *reader) message(n node, m proto.Message) bool {
	w := jsonWriter{left: &r.messageValues}
	if at, wrong := w.write(n, 0); wrong != "" {
		r.problem(at, "%s", wrong)
		return false
	}
	err := protojson.UnmarshalOptions{Resolver: anyType{}}.Unmarshal(w.json, m)
	if err == nil {
		return true
	}
	at, text := w.locate(n, err)
	r.problem(at, "%s%s", text, noAction(at))
	return false
}

// pseudoHeaders are the parts of a request that are no actions, and the headers that have them.
var pseudoHeaders = map[string]string{"path": ":path", "method": ":method", "scheme": ":scheme", "authority": ":authority", "host": ":authority"}

// noAction returns a hint for a field that is taken for an action, "" for others.
func noAction(n node) string {
	name := pseudoHeaders[n.step.Field]
	if name == "" || n.up == nil || n.up.up == nil || n.up.up.step.Field != "actions" {
		return ""
	}
	return fmt.Sprintf("; Envoy has no such action, use request_headers with header_name %q", name)
}

const (
	// maxDepth bounds how deep the values of a message may lie in each other.
	maxDepth = 60
	// maxValues bounds how many values all messages of a file have together, with those
	// that aliases repeat.
	maxValues = 2_000_000
)

// jsonWriter writes values of the file as JSON on one line, and keeps which byte
// comes from where.
type jsonWriter struct {
	json   []byte
	starts []int // of values and names in json
	nodes  []node
	left   *int // how many more values the messages of the file may have
}

// write appends a value, or says what is wrong with which.
func (w *jsonWriter) write(n node, depth int) (at node, wrong string) {
	if *w.left--; *w.left < 0 {
		return n, "aliases repeat too much, at most " + strconv.Itoa(maxValues) + " values are allowed"
	}
	if depth > maxDepth {
		return n, "nested too deep, at most " + strconv.Itoa(maxDepth) + " levels are allowed"
	}
	w.mark(n)
	switch {
	case !n.exists():
		w.json = append(w.json, "null"...)
	case n.yaml.Kind == yaml.MappingNode:
		return w.mapping(n, depth)
	case n.yaml.Kind == yaml.SequenceNode:
		w.json = append(w.json, '[')
		for i, item := range n.items() {
			if i > 0 {
				w.json = append(w.json, ',')
			}
			if at, wrong := w.write(item, depth+1); wrong != "" {
				return at, wrong
			}
		}
		w.json = append(w.json, ']')
	default:
		w.json = append(w.json, scalar(n.yaml)...)
	}
	return node{}, ""
}

func (w *jsonWriter) mapping(n node, depth int) (at node, wrong string) {
	if name := n.get("@type").text(); name != "" { // what is in it is not looked at here
		w.json = append(w.json, `{"@type":`...)
		w.json = append(w.json, quoted(name)...)
		w.json = append(w.json, `,"value":{}}`...)
		return node{}, ""
	}
	names, values := n.pairs()
	w.json = append(w.json, '{')
	for i, name := range names {
		if i > 0 {
			w.json = append(w.json, ',')
		}
		w.mark(values[i].orNull(n, name))
		w.json = append(w.json, quoted(name)...)
		w.json = append(w.json, ':')
		if at, wrong := w.write(values[i], depth+1); wrong != "" {
			return at, wrong
		}
	}
	w.json = append(w.json, '}')
	return node{}, ""
}

// orNull returns n or, if it is null, the field of above that it is, to know its place.
func (n node) orNull(above node, name string) node {
	if n.exists() {
		return n
	}
	return node{yaml: above.yaml, up: &above, step: strictyaml.Step{Field: name}}
}

// mark notes that what is written next comes from n.
func (w *jsonWriter) mark(n node) {
	w.starts = append(w.starts, len(w.json))
	w.nodes = append(w.nodes, n)
}

// position finds the column in an error of protojson, which writes one of two kinds of blanks
// so that programs do not rely on its texts. Without a match the place is the whole message.
var position = regexp.MustCompile(`^proto:[\s\x{a0}](?:syntax error[\s\x{a0}])?\(line 1:(\d+)\): (.*)$`)

// locate returns the place in the file that an error is about, and its text.
func (w *jsonWriter) locate(whole node, err error) (at node, text string) {
	found := position.FindStringSubmatch(err.Error())
	if found == nil {
		return whole, strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	}
	column, _ := strconv.Atoi(found[1])
	i := sort.Search(len(w.starts), func(i int) bool { return w.starts[i] > column-1 }) - 1
	if i < 0 || !w.nodes[i].exists() {
		return whole, found[2]
	}
	at, text = w.nodes[i], found[2]
	if _, ok := scalarBool(at.yaml); ok && strings.Contains(text, "string") {
		text += fmt.Sprintf("; Envoy takes %s for a boolean, put it in quotes", at.yaml.Value)
	}
	return at, text
}

// scalar returns a scalar of YAML as JSON, as Envoy understands it.
func scalar(n *yaml.Node) []byte {
	if value, ok := scalarBool(n); ok {
		return strconv.AppendBool(nil, value)
	}
	switch n.ShortTag() {
	case "!!int":
		var whole int64
		var large uint64
		if n.Decode(&whole) == nil {
			return strconv.AppendInt(nil, whole, 10)
		}
		if n.Decode(&large) == nil {
			return strconv.AppendUint(nil, large, 10)
		}
	case "!!float":
		var number float64
		if n.Decode(&number) == nil && !math.IsInf(number, 0) && !math.IsNaN(number) {
			return strconv.AppendFloat(nil, number, 'g', -1, 64)
		}
	}
	return quoted(n.Value)
}

// scalarBool returns the value of a boolean, which Envoy also takes in the words of
// older YAML.
func scalarBool(n *yaml.Node) (value, ok bool) {
	if n == nil || n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return false, false
	}
	switch n.Value {
	case "true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return true, true
	case "false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}

func quoted(s string) []byte {
	b, _ := json.Marshal(s) // of a string it does not fail
	return b
}

// anyType finds the type of every Any: an empty message, in whose place the file says
// what it is.
type anyType struct{}

// FindMessageByURL implements protojson's Resolver.
func (anyType) FindMessageByURL(string) (protoreflect.MessageType, error) {
	return (*emptypb.Empty)(nil).ProtoReflect().Type(), nil
}

// FindMessageByName implements protojson's Resolver.
func (anyType) FindMessageByName(protoreflect.FullName) (protoreflect.MessageType, error) {
	return nil, protoregistry.NotFound
}

// FindExtensionByName implements protojson's Resolver.
func (anyType) FindExtensionByName(protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}

// FindExtensionByNumber implements protojson's Resolver.
func (anyType) FindExtensionByNumber(protoreflect.FullName, protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return nil, protoregistry.NotFound
}
