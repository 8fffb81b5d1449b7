package accesslog

import (
	"errors"
	"strings"
	"unsafe"

	"github.com/valyala/fastjson"
)

var errJSON = errors.New("it is not a JSON object")

// names are those that logs have for a field. The first that has a value counts, whatever other
// lines had.
type names [][]string // each the whole name, and then its parts between dots

func newNames(list []string) (n names) {
	for _, name := range list {
		n = append(n, append([]string{name}, strings.Split(name, ".")...))
	}
	return n
}

// find returns the text of the first of the names that has one, and the name; "" if none has. present reports
// whether one of them is there, with or without a value.
func (p *Parser) find(o *fastjson.Object, n names) (text, name string, present bool) {
	for _, parts := range n {
		v := o.Get(parts[0])
		if v == nil && len(parts) > 2 {
			if v = o.Get(parts[1]); v != nil {
				v = v.Get(parts[2:]...)
			}
		}
		if v == nil {
			continue
		}
		if text = p.text(v); text != "" && text != "-" {
			return text, parts[0], true
		}
		present = true
	}
	return "", "", present
}

// text returns a value as text: a string without its quotes, a number as it is written.
func (p *Parser) text(v *fastjson.Value) string {
	switch v.Type() {
	case fastjson.TypeString:
		return asString(v.GetStringBytes())
	case fastjson.TypeNumber, fastjson.TypeTrue, fastjson.TypeFalse:
		start := len(p.numbers)
		p.numbers = v.MarshalTo(p.numbers)
		return asString(p.numbers[start:])
	default:
		return ""
	}
}

// parseJSON reads a line that is a JSON object.
func (p *Parser) parseJSON(line []byte, r *Record) error {
	v, err := p.json.ParseBytes(line)
	if err != nil || v.Type() != fastjson.TypeObject {
		return errJSON
	}
	p.hasJSON = true
	r.object, p.numbers = v.GetObject(), p.numbers[:0]
	var at, took string
	r.texts[Time], at, _ = p.find(r.object, p.names[Time])
	r.texts[Duration], took, _ = p.find(r.object, p.names[Duration])
	method, _, _ := p.find(r.object, p.names[Method])
	path, _, saysPath := p.find(r.object, p.names[Path])
	if r.texts[Method], r.texts[Path] = method, path; method == "" {
		var saysLine bool
		r.texts[RequestLine], _, saysLine = p.find(r.object, p.names[RequestLine])
		saysPath = saysPath || saysLine
	}
	r.saysPath = saysPath
	// Other names than the first two may be of a machine.
	_, _, r.NoRequest = p.find(r.object, p.names[Authority][:min(2, len(p.names[Authority]))])
	r.NoRequest = r.NoRequest && r.Get(Authority) == ""

	// The time of nginx is of the end of a request, and its duration in seconds.
	p.unit, p.atEnd = milli, at == "time_iso8601" || at == "time_local" || at == "msec"
	if took == "request_time" {
		p.unit, p.atEnd = second, at != "start_time"
	}
	if p.mapping.seconds {
		p.unit = second
	}
	p.atEnd = p.atEnd || p.mapping.atEnd
	return nil
}

// asString returns bytes as a string without a copy. They must not be written to while the
// record is used.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
