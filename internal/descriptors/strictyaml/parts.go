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

	// Ahead is how many parts more are parsed meanwhile, each in a goroutine of
	// its own, while the items of one are looked at.
	Ahead int

	rest  []byte // of the list, what was not yet cut off
	size  int    // that a part must have to be cut off, in bytes
	pause func() // is called again and again
	dash  []byte // that every item begins with, and the blanks before it
	line  int    // how many lines come before rest

	cut []func() *yaml.Node // parts that were not yet returned; each waits for its list
}

// Split cuts a file before items of a list, so that each part but the last has
// at least size bytes. It returns nil if the file is not larger than that, if it
// is not written as it must be, or if it may be wrong: then Parse it as a whole.
// It calls pause again and again, as Next does, there from several goroutines if
// parts are parsed ahead.
func Split(data []byte, list string, size int, pause func()) *Parts {
	if _, wrong := refuseBulk(data); wrong != "" || len(data) <= size {
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
	p := &Parts{rest: rest, size: size, pause: pause, dash: dash, line: bytes.Count(head, []byte("\n"))}
	if dash == nil || notText(head) >= 0 || !p.separable(head) {
		return nil
	}
	if p.Head = p.parseAlone(head); !endsWithNull(p.Head, list) {
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

// saysNothing reports whether a line, without the blanks before it, is empty or a
// comment.
func saysNothing(line []byte) bool { return len(line) == 0 || line[0] == '\n' || line[0] == '#' }

// endsWithNull reports whether a node is a mapping whose last field has the given
// name and no value.
func endsWithNull(n *yaml.Node, field string) bool {
	if n == nil || n.Kind != yaml.MappingNode {
		return false
	}
	last := n.Content[len(n.Content)-2:]
	return last[0].Value == field && IsNull(last[1])
}

// separable reports whether nothing but the list follows the head, that the list is
// text, and that the numbers of lines can be told without the parser.
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
		if outside && !saysNothing(text) || notText(line) >= 0 {
			return false
		}
		p.pause()
	}
	return true
}

// Items is about how many items there are, before the first part is returned: more
// than there are if text of several lines looks like some.
func (p *Parts) Items() int { return 1 + bytes.Count(p.rest, p.next()) }

// next is what comes before the item after another one.
func (p *Parts) next() []byte { return append([]byte("\n"), p.dash...) }

// Next returns the items of the next part, none after the last. It is not ok if
// the part cannot be parsed alone, because of an error or an alias of what
// comes before it: then the file must be parsed as a whole.
//
// The cut is safe: a part that parses alone has all its quotes and brackets
// closed, so that the next one begins an item of the list in the file, too.
func (p *Parts) Next() (items []*yaml.Node, ok bool) {
	for len(p.rest) > 0 && len(p.cut) <= p.Ahead {
		p.cut = append(p.cut, p.parse(p.cutOff()))
	}
	if len(p.cut) == 0 {
		return nil, true
	}
	list := p.cut[0]()
	p.cut = p.cut[1:]
	if list == nil {
		return nil, false
	}
	return list.Content, true
}

// cutOff takes the next part off the rest; line is how many lines come before it.
func (p *Parts) cutOff() (part []byte, line int) {
	part, line = p.rest, p.line
	if len(part) > p.size {
		if i := bytes.Index(part[p.size:], p.next()); i >= 0 {
			part = part[:p.size+i+1]
		}
	}
	p.rest = p.rest[len(part):]
	p.line += bytes.Count(part, []byte("\n"))
	return part, line
}

// parse returns a function that returns the list which is a part, or nil if it is
// none. It is parsed then, or from now on if that is to be done ahead.
func (p *Parts) parse(part []byte, line int) func() *yaml.Node {
	parse := func() *yaml.Node {
		list := p.parseAlone(part)
		if list == nil || list.Kind != yaml.SequenceNode {
			return nil
		}
		moveDown(list, line)
		return list
	}
	if p.Ahead == 0 {
		return parse
	}
	parsed := make(chan *yaml.Node, 1) // nobody takes it if an earlier part is none
	go func() { parsed <- parse() }()
	return func() *yaml.Node { return <-parsed }
}

// parseAlone returns the root node of a text that is one document, else nil.
func (p *Parts) parseAlone(text []byte) *yaml.Node {
	var first, second yaml.Node
	dec := yaml.NewDecoder(pausing{bytes.NewReader(text), p.pause})
	if dec.Decode(&first) != nil || !errors.Is(dec.Decode(&second), io.EOF) {
		return nil
	}
	return first.Content[0]
}

// pausing pauses before the parser reads on, which it does every few hundred bytes.
type pausing struct {
	io.Reader
	pause func()
}

func (p pausing) Read(b []byte) (int, error) {
	p.pause()
	return p.Reader.Read(b)
}

// moveDown moves a node and those below it by a number of lines.
func moveDown(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		moveDown(child, lines)
	}
}
