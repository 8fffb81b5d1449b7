package accesslog

import (
	"net/netip"
	"strings"

	"weir/internal/descriptors/plaintext"
)

// around contains the text before and after each kind of part that a line can have. A raw part is in quotes and
// may contain quotes, because Envoy does not escape quotes. A raw part ends where the next part can begin.
var around = [...][2]string{
	'w': {"", " "}, // word
	'[': {"[", "]"},
	'"': {`"`, `"`},   // quoted part that contains no quotes
	'r': {`"`, `" `},  // raw part before a word
	'R': {`"`, `" "`}, // raw part before a quoted part
}

// layout is the layout of a line: the kind of each part, and the property in each part, or "" if no property is read.
type layout struct {
	parts  string
	fields []string
}

// layouts contains Envoy's default format, Istio's format, which adds addresses, and nginx combined,
// which is often extended, usually with x-forwarded-for first.
var layouts = map[Format]*layout{
	Envoy: {`[rwwwwww"RRR"`, []string{0: timeField, 1: requestField, 6: durationField, 8: "x-forwarded-for", 9: "user-agent", 10: "x-request-id", 11: ":authority"}},
	Istio: {`[rwwww"wwww"RRR"wwwwww`, []string{0: timeField, 1: requestField, 9: durationField, 11: "x-forwarded-for", 12: "user-agent", 13: "x-request-id", 14: ":authority", 19: RemoteAddress, 21: RouteName}},
	Nginx: {`www["ww""`, []string{0: RemoteAddress, 3: timeField, 4: requestField, 8: "user-agent", 9: "x-forwarded-for"}},
}

// parseText splits a text line into p.parts. It returns the layout of the line, or nil if the line does not have the
// format. With Auto, it tries Envoy and Istio.
func (p *Parser) parseText(line string, format Format) *layout {
	if format == Auto {
		if of := p.parseText(line, Envoy); of != nil {
			return of
		}
		format = Istio
	}
	of := layouts[format]
	rest, ok := p.split(of, line)
	if !ok || rest != "" && format != Nginx {
		return nil
	}
	if format == Nginx {
		forwarded := ""
		if quoted, ok := strings.CutPrefix(rest, ` "`); ok {
			forwarded, _, _ = strings.Cut(quoted, `"`)
		}
		p.parts = append(p.parts, forwarded)
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
			p.parts[i] = plaintext.Decode(p.parts[i], `\x`) // nginx escapes bytes like this
		}
	}
	return of
}

// split splits a line into parts and returns the rest of the line. It fails if the line has too few parts. A client
// that sends quotes in its headers can only add parts. Then there is a rest, and parseText refuses the line.
func (p *Parser) split(of *layout, line string) (rest string, ok bool) {
	p.parts = p.parts[:0]
	for i := range len(of.parts) {
		if i > 0 {
			if line, ok = strings.CutPrefix(line, " "); !ok {
				return "", false
			}
		}
		opening, closing := around[of.parts[i]][0], around[of.parts[i]][1]
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
		p.parts, line = append(p.parts, line[:end]), line[end+len(opening):] // skips a closing bracket or quote, which is as long as the opening text
	}
	return line, true
}
