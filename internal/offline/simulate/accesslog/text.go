package accesslog

import (
	"net/netip"
	"strings"

	"weir/internal/descriptors/plaintext"
)

// maxParts is how many parts a line has at most.
const maxParts = 22

// Kinds of the parts of a line.
const (
	word     = 'w' // to the next blank
	brackets = '['
	quotes   = '"' // without a quotation mark in them
	raw      = 'r' // in quotes, which Envoy does not escape within: they end before what is between two parts
)

// layout says of what kind the parts of a line are, and which of them are which field.
type layout struct {
	parts  string
	open   bool // more may follow
	fields []string
}

// layouts are those of Envoy's default format, of Istio's, which goes on with addresses,
// and of nginx combined, which many extend, often by x-forwarded-for first.
var layouts = map[Format]*layout{
	Envoy: {`[rwwwwww"rrr"`, false, []string{0: timeField, 1: requestField, 6: durationField, 8: "x-forwarded-for", 9: "user-agent", 10: "x-request-id", 11: ":authority"}},
	Istio: {`[rwwww"wwww"rrr"wwwwww`, false, []string{0: timeField, 1: requestField, 9: durationField, 11: "x-forwarded-for", 12: "user-agent", 13: "x-request-id", 14: ":authority", 19: RemoteAddress, 21: RouteName}},
	Nginx: {`www["ww""`, true, []string{0: RemoteAddress, 3: timeField, 4: requestField, 8: "user-agent", 9: "x-forwarded-for"}},
}

// parseText reads a line of text. Auto is for Envoy or Istio.
func (p *Parser) parseText(line string, format Format, r *Record) (s said, err error) {
	of := format
	if format == Auto {
		of = Envoy
	}
	rest, ok := layouts[of].split(line, &p.parts)
	if !ok && format == Auto {
		of = Istio
		rest, ok = layouts[of].split(line, &p.parts)
	}
	if !ok {
		return s, errFormat
	}
	r.layout = layouts[of]
	if of == Nginx {
		p.parts[9] = ""
		if forwarded, ok := strings.CutPrefix(rest, `"`); ok {
			p.parts[9], _, _ = strings.Cut(forwarded, `"`)
		}
		if p.parts[0] == "unix:" {
			p.parts[0] = "-"
		}
	}
	r.NoRequest = r.Get(":authority") == "-"
	for i := range r.layout.fields {
		if p.parts[i] == "-" {
			p.parts[i] = ""
		} else if of == Nginx {
			p.parts[i] = plaintext.Decode(p.parts[i], `\x`) // as nginx writes bytes
		}
	}
	if _, err := netip.ParseAddr(p.parts[0]); of == Nginx && p.parts[0] != "" && err != nil {
		return s, errFormat
	}
	return said{at: r.Get(timeField), duration: r.Get(durationField), request: r.Get(requestField), path: true, unit: milli}, nil
}

// split cuts a line into its parts, and returns what follows them. A client that writes quotes into its headers
// can make more parts of a line, and none fewer: such a line is refused, as any that has not all parts and no more.
func (l *layout) split(line string, parts *[maxParts]string) (rest string, ok bool) {
	for i := range len(l.parts) {
		if i > 0 {
			if line == "" || line[0] != ' ' {
				return "", false
			}
			line = line[1:]
		}
		next := byte(0)
		if i+1 < len(l.parts) {
			next = l.parts[i+1]
		}
		if parts[i], line, ok = cut(line, l.parts[i], next); !ok {
			return "", false
		}
	}
	if line == "" || l.open && line[0] == ' ' {
		return strings.TrimPrefix(line, " "), true
	}
	return "", false
}

// cut cuts a part of a kind from a line. next is the kind of the part that follows.
func cut(line string, kind, next byte) (part, rest string, ok bool) {
	opening, closing := byte('"'), `"`
	switch {
	case kind == word:
		end := strings.IndexByte(line, ' ')
		if end < 0 {
			end = len(line)
		}
		return line[:end], line[end:], !strings.HasPrefix(line, `"`)
	case kind == brackets:
		opening, closing = '[', "]"
	case kind == raw && next == word:
		closing = `" `
	case kind == raw:
		closing = `" "`
	}
	if line == "" || line[0] != opening {
		return "", "", false
	}
	end := strings.Index(line[1:], closing)
	if end < 0 {
		return "", "", false
	}
	return line[1 : 1+end], line[1+end+1:], true
}
