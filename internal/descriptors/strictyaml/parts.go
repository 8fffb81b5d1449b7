package strictyaml

import (
	"bytes"
	"regexp"

	"gopkg.in/yaml.v3"
)

// Parts is a large file that is parsed in parts. The nodes of a file take twenty times as much
// memory as its text. With parts, the nodes of a part can be freed before the next part is
// parsed.
//
// Only a mapping whose last field is a list in block style can be split, between its items:
//
//	domain: api
//	descriptors:
//	  - key: user     # start of the first part
//	  ...
//	  - key: path     # possible start of another part
type Parts struct {
	// Head is the mapping, with null in place of the list.
	Head *yaml.Node

	rest   []byte            // text of the list without the parts so far
	size   int               // minimum size of each part but the last, in bytes
	ahead  int               // number of parts that are parsed ahead
	next   []byte            // text before an item: a newline, spaces and a dash
	line   int               // number of lines before rest
	parsed []chan *yaml.Node // parts that Next has not returned yet
}

// firstItem matches the text up to the first item of a list. Its submatch is the item's indent
// and dash.
var firstItem = regexp.MustCompile("^(?: *(?:#[^\n]*)?\n)*( *- )")

// Split splits a file before items of a list, so that each part but the last has at least size
// bytes. Parameter ahead is the number of parts to parse while the caller reads one. Split returns nil
// if data has at most size bytes, is invalid, or does not have the form that Parts describes; then use Parse.
func Split(data []byte, list string, size, ahead int) *Parts {
	if len(data) <= size {
		return nil
	}
	_, below, found := bytes.Cut(data, []byte("\n"+list+":\n"))
	item := firstItem.FindSubmatchIndex(below)
	if _, wrong := refuse(data); wrong != "" || !found || item == nil {
		return nil
	}
	dash, rest := below[item[2]:item[3]], below[item[2]:]
	above := data[:len(data)-len(rest)]
	if bytes.ContainsAny(above, "%\r\u0085\u2028\u2029") || !separable(rest, dash) {
		return nil
	}
	head, err := documents(above)
	if err != nil || len(head) != 1 || !endsWithNull(head[0].Content[0], list) {
		return nil
	}
	return &Parts{
		Head: head[0].Content[0],
		rest: rest, size: size, ahead: ahead, next: append([]byte("\n"), dash...), line: bytes.Count(above, []byte("\n")),
	}
}

// endsWithNull reports whether n is a mapping whose last field is the given field, without a
// value.
func endsWithNull(n *yaml.Node, field string) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	last := n.Content[len(n.Content)-2:]
	return last[0].Value == field && IsNull(last[1])
}

// separable reports whether a text is just a list whose items begin with dash, and has lines that
// can be counted without the parser.
func separable(list, dash []byte) bool {
	for _, s := range []string{"\n---", "\n...", "\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(list, []byte(s)) {
			return false
		}
	}
	for line := range bytes.Lines(list) {
		text := bytes.TrimLeft(line, " ")
		inItem := len(line)-len(text) > len(dash)-len("- ") || bytes.HasPrefix(line, dash)
		if !inItem && len(text) > 0 && text[0] != '\n' && text[0] != '#' {
			return false
		}
	}
	return true
}

// Items estimates the number of items, before the first call of Next. The estimate is too high
// if a multi-line text contains a line that looks like an item.
func (p *Parts) Items() int { return 1 + bytes.Count(p.rest, p.next) }

// Next returns the items of the next part, or no items after the last. ok is false if the part
// cannot be parsed on its own, because of an error or an alias to an earlier part; then use
// Parse.
//
// Splitting is safe: if a part can be parsed, all its quotes and brackets are closed, so the
// next part also begins with an item of the list.
func (p *Parts) Next() (items []*yaml.Node, ok bool) {
	for len(p.rest) > 0 && len(p.parsed) <= p.ahead {
		part, line := p.rest, p.line
		if len(part) > p.size {
			if i := bytes.Index(part[p.size:], p.next); i >= 0 {
				part = part[:p.size+i+1]
			}
		}
		p.rest = p.rest[len(part):]
		p.line += bytes.Count(part, []byte("\n"))
		parsed := make(chan *yaml.Node, 1) // buffered, because Next is not called again after a failed part
		p.parsed = append(p.parsed, parsed)
		go func() { parsed <- parseList(part, line) }()
	}
	if len(p.parsed) == 0 {
		return nil, true
	}
	list := <-p.parsed[0]
	p.parsed = p.parsed[1:]
	if list == nil {
		return nil, false
	}
	return list.Content, true
}

// parseList parses text as a list. It returns nil if text is something else or invalid. line is
// the number of lines before text.
func parseList(text []byte, line int) *yaml.Node {
	parsed, err := documents(text)
	if err != nil || len(parsed) != 1 || parsed[0].Content[0].Kind != yaml.SequenceNode {
		return nil
	}
	moveDown(parsed[0], line)
	return parsed[0].Content[0]
}

// moveDown adds lines to the line of a node and of the nodes below it.
func moveDown(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		moveDown(child, lines)
	}
}
