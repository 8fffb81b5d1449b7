package descriptors

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	// maxDepth bounds how deep lists and mappings may lie in each other, so that a file
	// cannot exhaust the stack. A level of descriptors takes two.
	maxDepth = 100
	// maxAliased bounds how many nodes the aliases of a file may stand for, so
	// that a few lines cannot grow into gigabytes.
	maxAliased = 1_000_000
)

// decoder walks the YAML nodes of one file. What it expects and does not find,
// it reports, and goes on with what is there.
type decoder struct {
	reporter
	open    []*yaml.Node // that the way to the current node leads through
	inAlias int          // how many aliases lead to the current node
	aliased int          // nodes visited below an alias
}

// parse returns the root node of a file's only document, or nil.
func (d *decoder) parse(data []byte) *yaml.Node {
	if at, what := refuse(data); what != "" {
		d.problem(at, "%s", what)
		return nil
	}
	var first, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF) || err == nil && isNull(first.Content[0]):
		d.problem(position{}, "the file is empty, a domain and its descriptors are needed")
		return nil
	case err != nil:
		d.syntax(err, data)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		d.problem(at(&second), "a second document, one per file is allowed")
	case !errors.Is(err, io.EOF):
		d.syntax(err, data)
	}
	return first.Content[0]
}

// refuse says what keeps a file from being parsed at all.
func refuse(data []byte) (at position, what string) {
	if len(data) > maxFileSize {
		return position{}, fmt.Sprintf("the file is too large, at most %d MiB are allowed", maxFileSize>>20)
	}
	if i := notText(data); i >= 0 {
		return position{line: lineOf(data, i)}, fmt.Sprintf("the byte 0x%02x is not text, allowed is UTF-8 without control characters", data[i])
	}
	// The parser compares each of these with all before it: many would take hours.
	tag := []byte("%TAG")
	if i := bytes.Index(data, append([]byte("\n"), tag...)); i >= 0 || bytes.HasPrefix(data, tag) {
		return position{line: lineOf(data, i+1)}, "%TAG is not allowed, leave it out"
	}
	return position{}, ""
}

// notText returns the index of the first byte that is not UTF-8 or begins a
// control character, or -1.
func notText(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
			return i
		}
		i += size
	}
	return -1
}

// lineOf is the line of the byte at index i, from 1.
func lineOf(data []byte, i int) int { return bytes.Count(data[:i], []byte("\n")) + 1 }

// syntax reports an error of the YAML parser, which names the line in its text,
// counted from 0 in some cases and left out if it is the first.
func (d *decoder) syntax(err error, data []byte) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if n, _ := fmt.Sscanf(message, "line %d:", &line); n == 1 {
		_, message, _ = strings.Cut(message, ": ")
		if strings.HasPrefix(message, "did not find expected") {
			line++
		}
	}
	if _, rest, ok := strings.Cut(message, "unknown anchor '"); ok {
		name, _, _ := strings.Cut(rest, "'")
		line = lineOf(data, max(bytes.Index(data, []byte("*"+name)), 0))
	}
	d.problem(position{line: line}, "invalid YAML: %s", message)
}

func at(n *yaml.Node) position { return position{n.Line, n.Column} }

// visit walks into a field or item of the current node, through its alias if
// it is one.
func (d *decoder) visit(s step, n *yaml.Node, walk func(*yaml.Node)) {
	if len(d.path) >= maxDepth && n.Kind != yaml.ScalarNode {
		d.problem(at(n), "nested too deep, at most %d levels are allowed", maxDepth)
		return
	}
	d.enter(s)
	defer d.leave()
	if n.Kind == yaml.AliasNode {
		if slices.Contains(d.open, n.Alias) {
			d.problem(at(n), "alias %q leads back to itself, allowed are aliases of other values", n.Value)
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
		d.problem(at(n), "aliases repeat too much, at most %d values are allowed", maxAliased)
		d.muted = true // what follows is incomplete
		return
	}
	d.open = append(d.open, n)
	walk(n)
	d.open = d.open[:len(d.open)-1]
}

// fields visits the fields of a mapping. Their names must be among allowed, and
// none may be repeated; a field of the mapping itself hides one that it merges.
func (d *decoder) fields(n *yaml.Node, allowed []string, visit func(name string, n *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.problem(at(n), "%s is not allowed, a mapping is needed", describe(n))
		return
	}
	var seen [16]bool // by place in allowed
	d.pairs(n, false, func(key, value *yaml.Node, merged bool) {
		i := slices.Index(allowed, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode || i < 0:
			d.unknownField(key, allowed)
		case !seen[i]:
			seen[i] = true
			name := allowed[i]
			d.visit(step{field: name}, value, func(n *yaml.Node) { visit(name, n) })
		case !merged:
			d.problem(at(key), "field %q is repeated, allowed is once", key.Value)
		}
	})
}

// pairs calls visit for each key and value of a mapping, and then for those of
// the mappings that it merges (<<).
func (d *decoder) pairs(n *yaml.Node, merged bool, visit func(key, value *yaml.Node, merged bool)) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Tag != "!!merge" {
			visit(key, n.Content[i+1], merged)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			d.visit(step{field: "<<"}, n.Content[i+1], func(n *yaml.Node) { d.merge(n, visit) })
		}
	}
}

func (d *decoder) merge(n *yaml.Node, visit func(key, value *yaml.Node, merged bool)) {
	one := func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.problem(at(n), "%s cannot be merged, allowed are mappings", describe(n))
			return
		}
		d.pairs(n, true, visit)
	}
	if n.Kind == yaml.SequenceNode {
		d.items(n, one)
	} else {
		one(n)
	}
}

// items visits the items of a list, none if the node is null.
func (d *decoder) items(n *yaml.Node, visit func(*yaml.Node)) {
	switch {
	case isNull(n):
	case n.Kind != yaml.SequenceNode:
		d.problem(at(n), "%s is not allowed, a list is needed", describe(n))
	default:
		for i, item := range n.Content {
			d.visit(step{index: i}, item, visit)
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// text returns the text of a scalar as it is written, also of a number or a
// boolean; of null it is "".
func (d *decoder) text(n *yaml.Node) (s string, ok bool) {
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
			return n.Value, true
		case "!!null":
			return "", true
		}
	}
	d.problem(at(n), "%s is not allowed, text is needed", describe(n))
	return "", false
}

// bytes is text that may be given in base64, as !!binary, because not every
// byte can be written in YAML.
func (d *decoder) bytes(n *yaml.Node) (s string, ok bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!binary" {
		return d.text(n)
	}
	raw, err := base64.StdEncoding.DecodeString(n.Value)
	if err != nil {
		d.problem(at(n), "%s is not base64, which !!binary needs", describe(n))
		return "", false
	}
	return string(raw), true
}

// flag returns a boolean, in the words of YAML 1.1 as the reference does; null
// is false.
func (d *decoder) flag(n *yaml.Node) bool {
	plain := n.Kind == yaml.ScalarNode && n.Style == 0
	switch text := strings.ToLower(n.Value); {
	case isNull(n):
		return false
	case plain && slices.Contains([]string{"true", "yes", "on", "y"}, text):
		return true
	case plain && slices.Contains([]string{"false", "no", "off", "n"}, text):
		return false
	}
	d.problem(at(n), "%s is not allowed, allowed are true and false", describe(n))
	return false
}

// amount returns a whole number that is at least least and fits in 32 bits.
func (d *decoder) amount(n *yaml.Node, least uint32) uint32 {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		digits := strings.TrimPrefix(strings.ReplaceAll(n.Value, "_", ""), "+")
		if v, err := strconv.ParseUint(digits, 0, 32); err == nil && v >= uint64(least) {
			return uint32(v)
		}
	}
	d.problem(at(n), "%s is not allowed, allowed are whole numbers from %d to %d", describe(n), least, uint32(math.MaxUint32))
	return 0
}

// describe names a node in a problem.
func describe(n *yaml.Node) string {
	const longest = 50
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "null"
	case len(n.Value) > longest:
		return strconv.Quote(strings.ToValidUTF8(n.Value[:longest], "")) + "..."
	case n.Style&yaml.TaggedStyle != 0:
		return n.ShortTag() + " " + strconv.Quote(n.Value)
	default:
		return strconv.Quote(n.Value)
	}
}
