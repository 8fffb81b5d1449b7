package envoyconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
)

const (
	// maxDepth bounds how deep the values of a message may lie in each other.
	maxDepth = 60
	// maxValues bounds how many values all messages of a file have together, with those
	// that aliases repeat.
	maxValues = 2_000_000
)

// message reads a value into a message, strictly, and reports whether that went well. What
// is wrong becomes a problem at its place in the file. An Any is left out.
func (r *reader) message(n node, m proto.Message) bool {
	w := jsonText{top: n.depth}
	if !r.write(&w, n) {
		return false
	}
	if err := protojson.Unmarshal(w.Bytes(), m); err != nil {
		at, text := w.locate(n, err)
		r.problem(at, "%s", text)
		return false
	}
	return true
}

// jsonText is a message as JSON. Each value and each name of a field begins a line, so that the lines in
// errors lead to their places in the file.
type jsonText struct {
	bytes.Buffer
	lines []node // what each is, from the second on
	top   int    // depth of the message
}

// write writes a value. It returns false after a problem.
func (r *reader) write(w *jsonText, n node) bool {
	switch r.messageValues--; {
	case r.messageValues < 0:
		r.problem(n, "aliases repeat too much, at most %d values are allowed", maxValues)
		return false
	case n.depth-w.top > maxDepth:
		r.problem(n, "nested too deep, at most %d levels are allowed", maxDepth)
		return false
	}
	w.begin(n)
	separator := ""
	switch {
	case !n.exists() || n.depth > w.top && n.get("@type").exists():
		w.WriteString("null")
	case n.yaml.Kind == yaml.MappingNode:
		w.WriteByte('{')
		for name, value := range n.fields() {
			if name == "@type" {
				continue
			}
			w.WriteString(separator)
			w.begin(value)
			w.Write(quoted(name))
			w.WriteByte(':')
			if !r.write(w, value) {
				return false
			}
			separator = ","
		}
		w.WriteByte('}')
	case n.yaml.Kind == yaml.SequenceNode:
		w.WriteByte('[')
		for _, item := range n.items() {
			w.WriteString(separator)
			if !r.write(w, item) {
				return false
			}
			separator = ","
		}
		w.WriteByte(']')
	default:
		w.Write(scalar(n.yaml))
	}
	return true
}

func (w *jsonText) begin(n node) {
	w.WriteByte('\n')
	w.lines = append(w.lines, n)
}

// scalar returns a scalar of YAML as JSON, as Envoy understands it: with booleans in the words of older YAML.
func scalar(n *yaml.Node) []byte {
	var value any = n.Value
	if b, ok := strictyaml.Boolean(n); ok {
		value = b
	} else if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" {
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
// so that programs do not rely on its texts. Without a match the place is the whole message.
var position = regexp.MustCompile(`^proto:[\s\x{a0}](?:syntax error[\s\x{a0}])?(?:\(line (\d+):\d+\): )?(.*)$`)

// pseudoHeaders are the parts of a request that are no actions, and the headers that have them.
var pseudoHeaders = map[string]string{"path": ":path", "method": ":method", "scheme": ":scheme", "authority": ":authority", "host": ":authority"}

// locate returns the place in the file that an error is about, and its text with a hint.
func (w *jsonText) locate(whole node, err error) (at node, text string) {
	at, text = whole, err.Error()
	if found := position.FindStringSubmatch(text); found != nil {
		text = found[2]
		if line, _ := strconv.Atoi(found[1]); line >= 2 && w.lines[line-2].exists() {
			at = w.lines[line-2]
		}
	}
	if _, ok := strictyaml.Boolean(at.yaml); ok && strings.Contains(text, "string") {
		text += fmt.Sprintf("; Envoy takes %s for a boolean, put it in quotes", at.yaml.Value)
	}
	if name := pseudoHeaders[at.step.Field]; name != "" && at.up != nil && at.up.up != nil && at.up.up.step.Field == "actions" {
		text += fmt.Sprintf("; Envoy has no such action, use request_headers with header_name %q", name)
	}
	return at, text
}
