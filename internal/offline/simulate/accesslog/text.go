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
	fields []string
}

// layouts are those of Envoy's default format, of Istio's, which goes on with addresses,
// and of nginx combined, which many extend, often by x-forwarded-for first.
var layouts = map[Format]*layout{
	Envoy: {`[rwwwwww"rrr"`, []string{0: timeField, 1: requestField, 6: durationField, 8: "x-forwarded-for", 9: "user-agent", 10: "x-request-id", 11: ":authority"}},
	Istio: {`[rwwww"wwww"rrr"wwwwww`, []string{0: timeField, 1: requestField, 9: durationField, 11: "x-forwarded-for", 12: "user-agent", 13: "x-request-id", 14: ":authority", 19: RemoteAddress, 21: RouteName}},
	Nginx: {`www["ww""`, []string{0: RemoteAddress, 3: timeField, 4: requestField, 8: "user-agent", 9: "x-forwarded-for"}},
}

// parseText reads a line of text into parts, and returns its layout, nil if it has none. Auto is for Envoy or Istio.
func (p *Parser) parseText(line string, format Format) *layout {
	of := layouts[format]
	if format == Auto {
		of = layouts[Envoy]
	}
	rest, ok := p.split(of, line)
	if format == Auto && (!ok || rest != "") {
		of = layouts[Istio]
		rest, ok = p.split(of, line)
	}
	if !ok || rest != "" && format != Nginx {
		return nil
	}
	if format == Nginx {
		p.parts[9] = ""
		if forwarded, ok := strings.CutPrefix(rest, ` "`); ok {
			p.parts[9], _, _ = strings.Cut(forwarded, `"`)
		}
		if p.parts[0] == "unix:" {
			p.parts[0] = "-"
		}
		if _, err := netip.ParseAddr(p.parts[0]); p.parts[0] != "-" && err != nil || rest != "" && rest[0] != ' ' {
			return nil
		}
	}
	for i := range of.fields {
		if p.parts[i] == "-" {
			p.parts[i] = ""
		} else if format == Nginx {
			p.parts[i] = plaintext.Decode(p.parts[i], `\x`) // as nginx writes bytes
		}
	}
	return of
}

// split cuts a line into parts, and returns what follows them. A client that writes quotes into its headers
// can make more parts of a line, and none fewer: such a line is refused, as any that has not all parts and no more.
func (p *Parser) split(of *layout, line string) (rest string, ok bool) {
	for i := range len(of.parts) {
		if i > 0 {
			if line, ok = strings.CutPrefix(line, " "); !ok {
				return "", false
			}
		}
		opening, closing := "", " "
		switch kind := of.parts[i]; kind {
		case brackets:
			opening, closing = "[", "]"
		case quotes, raw:
			opening, closing = `"`, `"`
			if kind == raw && of.parts[i+1] == word {
				closing = `" `
			} else if kind == raw {
				closing = `" "`
			}
		}
		if line, ok = strings.CutPrefix(line, opening); !ok || opening == "" && strings.HasPrefix(line, `"`) {
			return "", false
		}
		end := strings.Index(line, closing)
		if end < 0 && opening == "" {
			end = len(line)
		}
		if end < 0 {
			return "", false
		}
		p.parts[i], line = line[:end], line[end+len(opening):] // what closes a part is as long as what opens it
	}
	return line, true
}
