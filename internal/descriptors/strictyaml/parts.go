package strictyaml

import (
	"bytes"
	"regexp"

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

	rest   []byte // of the list, what was not yet cut off
	size   int    // that a part must have to be cut off, in bytes
	ahead  int
	next   []byte            // what comes before an item: the end of a line, blanks and a dash
	line   int               // how many lines come before rest
	parsed []chan *yaml.Node // the lists of parts that were not yet returned
}

// firstItem is what may come before the first item of a list, and the blanks and the dash
// with which that begins.
var firstItem = regexp.MustCompile("^(?: *(?:#[^\n]*)?\n)*( *- )")

// Split cuts a file before items of a list, so that each part but the last has
// at least size bytes. It returns nil if the file is not larger than that, if it
// is not written as it must be, or if it may be wrong: then Parse it as a whole.
// ahead is how many parts more are parsed while the items of one are looked at.
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

// endsWithNull reports whether a node is a mapping whose last field has the given
// name and no value.
func endsWithNull(n *yaml.Node, field string) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	last := n.Content[len(n.Content)-2:]
	return last[0].Value == field && IsNull(last[1])
}

// separable reports whether a text is a list whose items begin with dash, and nothing
// else, and whether its lines can be counted without the parser.
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

// Items is about how many items there are, before the first part is returned: more
// than there are if text of several lines looks like some.
func (p *Parts) Items() int { return 1 + bytes.Count(p.rest, p.next) }

// Next returns the items of the next part, none after the last. It is not ok if
// the part cannot be parsed alone, because of an error or an alias of what
// comes before it: then the file must be parsed as a whole.
//
// The cut is safe: a part that parses alone has all its quotes and brackets
// closed, so that the next one begins an item of the list in the file, too.
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
		parsed := make(chan *yaml.Node, 1) // nobody takes it if an earlier part is none
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

// parseList returns a list after which nothing comes, and before which so many lines do,
// or nil if the text is none.
func parseList(text []byte, line int) *yaml.Node {
	parsed, err := documents(text)
	if err != nil || len(parsed) != 1 || parsed[0].Content[0].Kind != yaml.SequenceNode {
		return nil
	}
	moveDown(parsed[0], line)
	return parsed[0].Content[0]
}

// moveDown moves a node and those below it by a number of lines.
func moveDown(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		moveDown(child, lines)
	}
}
