package strictyaml

import (
	"bytes"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

// Parts is a large file cut into parts that are parsed one after the other. The
// nodes of a file take twenty times as much memory as its text; those of a part
// are garbage when the next is parsed.
//
// Only a mapping whose last field is a list in block style can be cut, before
// items of that list:
//
//	domain: api
//	descriptors:
//	  - key: user     # the first part begins here
//	  ...
//	  - key: path     # another one may begin here
type Parts struct {
	// Head is the mapping, in which the list is still null.
	Head *yaml.Node

	rest []byte // of the list, what was not yet returned
	size int    // that a part must have to be cut off, in bytes
	dash []byte // that every item begins with, and the blanks before it
	line int    // how many lines come before rest
}

// Split cuts a file before items of a list, so that each part but the last has
// at least size bytes. It returns nil if the file is not larger than that, if it
// is not written as it must be, or if it may be wrong: then Parse it as a whole.
func Split(data []byte, list string, size int) *Parts {
	if _, wrong := refuse(data); wrong != "" || len(data) <= size {
		return nil
	}
	field := []byte("\n" + list + ":\n")
	_, below, found := bytes.Cut(data, field)
	if !found {
		return nil
	}
	above, dash := firstItem(below)
	rest := below[above:]
	head := data[:len(data)-len(rest)]
	p := &Parts{Head: parseAlone(head), rest: rest, size: size, dash: dash, line: bytes.Count(head, []byte("\n"))}
	if dash == nil || !endsWithNull(p.Head, list) || !p.separable(head) {
		return nil
	}
	return p
}

// firstItem finds the first item of a list: how many bytes are above its line,
// and what that begins with, blanks and the dash. That is nil if there is none.
func firstItem(list []byte) (above int, dash []byte) {
	for line := range bytes.Lines(list) {
		text := bytes.TrimLeft(line, " ")
		switch {
		case saysNothing(text):
			above += len(line)
		case bytes.HasPrefix(text, []byte("- ")):
			return above, line[:len(line)-len(text)+2]
		default:
			return above, nil
		}
	}
	return above, nil
}

// saysNothing tells whether a line, without the blanks before it, is empty or a
// comment.
func saysNothing(line []byte) bool { return len(line) == 0 || line[0] == '\n' || line[0] == '#' }

// endsWithNull tells whether a node is a mapping whose last field has the given
// name and no value.
func endsWithNull(n *yaml.Node, field string) bool {
	if n == nil || n.Kind != yaml.MappingNode {
		return false
	}
	last := n.Content[len(n.Content)-2:]
	return last[0].Value == field && IsNull(last[1])
}

// separable tells that nothing but the list follows the head, and that the
// numbers of lines can be told without the parser.
func (p *Parts) separable(head []byte) bool {
	for _, s := range []string{"\n---", "\n...", "\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(p.rest, []byte(s)) {
			return false
		}
	}
	if bytes.ContainsAny(head, "%\r\u0085\u2028\u2029") {
		return false
	}
	column := len(p.dash) - len("- ")
	for line := range bytes.Lines(p.rest) {
		text := bytes.TrimLeft(line, " ")
		outside := len(line)-len(text) <= column && !bytes.HasPrefix(line, p.dash)
		if outside && !saysNothing(text) {
			return false
		}
	}
	return true
}

// Items is about how many items are in all parts that were not yet returned:
// more than there are if text of several lines looks like some.
func (p *Parts) Items() int { return 1 + bytes.Count(p.rest, append([]byte("\n"), p.dash...)) }

// Next returns the items of the next part, none after the last. It is not ok if
// the part cannot be parsed alone, because of an error or an alias of what
// comes before it: then the file must be parsed as a whole.
//
// The cut is safe: a part that parses alone has all its quotes and brackets
// closed, so that the next one begins an item of the list in the file, too.
func (p *Parts) Next() (items []*yaml.Node, ok bool) {
	if len(p.rest) == 0 {
		return nil, true
	}
	part := p.rest
	if len(part) > p.size {
		if i := bytes.Index(part[p.size:], append([]byte("\n"), p.dash...)); i >= 0 {
			part = part[:p.size+i+1]
		}
	}
	list := parseAlone(part)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil, false
	}
	moveDown(list, p.line)
	p.rest = p.rest[len(part):]
	p.line += bytes.Count(part, []byte("\n"))
	return list.Content, true
}

// parseAlone returns the root node of a text that is one document, else nil.
func parseAlone(text []byte) *yaml.Node {
	var first, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if dec.Decode(&first) != nil || !errors.Is(dec.Decode(&second), io.EOF) {
		return nil
	}
	return first.Content[0]
}

// moveDown moves a node and those below it by a number of lines.
func moveDown(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		moveDown(child, lines)
	}
}
