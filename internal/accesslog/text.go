package accesslog

import (
	"strconv"
	"strings"
)

// maxParts is how many parts of a line are looked at.
const maxParts = 24

// layout says which part of a line is which field, and how many parts a line has at
// least. A part is a word, or what stands in quotes or brackets.
type layout struct {
	parts  int
	places []place
}

type place struct {
	field Field
	part  int
}

// layouts are those of Envoy's default format, of Istio's, which goes on with addresses,
// and of nginx combined, which many extend by x-forwarded-for.
var layouts = [...]layout{
	Envoy: {13, []place{{Time, 0}, {RequestLine, 1}, {Duration, 6}, {ForwardedFor, 8}, {UserAgent, 9}, {RequestID, 10}, {Authority, 11}}},
	Istio: {20, []place{{Time, 0}, {RequestLine, 1}, {Duration, 9}, {ForwardedFor, 11}, {UserAgent, 12}, {RequestID, 13}, {Authority, 14}, {RemoteAddress, 19}, {RouteName, 21}}},
	Nginx: {9, []place{{RemoteAddress, 0}, {Time, 3}, {RequestLine, 4}, {UserAgent, 8}, {ForwardedFor, 9}}},
}

// parseText reads a line of text. Auto is for Envoy or Istio.
func (p *Parser) parseText(line string, format Format, r *Record) error {
	n, ok := split(line, &p.parts)
	if !ok {
		return errFormat
	}
	if format == Auto {
		format = Envoy
		if n >= layouts[Istio].parts {
			format = Istio
		}
	}
	if n < layouts[format].parts {
		return errFormat
	}
	for _, at := range layouts[format].places {
		if at.part < n {
			r.texts[at.field] = p.parts[at.part]
		}
	}
	if format == Nginx {
		for f := range r.texts {
			r.texts[f] = unescape(r.texts[f])
		}
	}
	p.unit, p.atEnd = milli, false
	r.NoRequest = r.texts[Authority] == "-"
	return nil
}

// split cuts a line at its blanks, but not in quotes and brackets. It returns false for
// quotes and brackets that do not end. A quotation mark within quotes ends them only before a blank.
func split(line string, parts *[maxParts]string) (n int, ok bool) {
	for n < maxParts && line != "" {
		end, skip := strings.IndexByte(line, ' '), 0
		switch line[0] {
		case '"':
			end, skip = strings.Index(line[1:], `" `), 1
			if end < 0 && len(line) > 1 && line[len(line)-1] == '"' {
				end = len(line) - 2
			}
		case '[':
			end, skip = strings.IndexByte(line, ']')-1, 1
		}
		switch {
		case skip > 0 && end < 0:
			return n, false
		case end < 0:
			end = len(line)
		}
		parts[n] = line[skip : skip+end]
		n++
		line = strings.TrimPrefix(line[min(skip+end+skip, len(line)):], " ")
	}
	return n, true
}

// unescape returns the bytes that nginx writes as \xHH.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], `\x`) && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b = append(b, byte(c))
				i += 3
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
