package accesslog

import (
	"unsafe"

	"github.com/valyala/fastjson"
)

// find returns the text of the first of the names that has one, and the name; "" if none has. present
// reports whether one of them is there, with or without a value.
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
func (p *Parser) parseJSON(line []byte, r *Record) (s said, err error) {
	v, err := p.json.ParseBytes(line)
	if err != nil || v.Type() != fastjson.TypeObject {
		return s, errJSON
	}
	p.hasJSON = true
	r.object, p.numbers = v.GetObject(), p.numbers[:0]
	var at, took string
	s.at, at, _ = p.find(r.object, p.namesOf(timeField))
	s.duration, took, _ = p.find(r.object, p.namesOf(durationField))
	r.Method, _, _ = p.find(r.object, p.namesOf(":method"))
	r.Path, _, s.path = p.find(r.object, p.namesOf(":path"))
	if r.Method == "" {
		var saysRequest bool
		s.request, _, saysRequest = p.find(r.object, p.namesOf(requestField))
		s.path = s.path || saysRequest
	}
	authority := p.namesOf(":authority")
	_, _, saysAuthority := p.find(r.object, authority[:min(2, len(authority))]) // other names may be of a machine
	r.NoRequest = saysAuthority && r.Get(":authority") == ""

	// The time of nginx is of the end of a request, and its duration in seconds.
	s.unit, s.atEnd = milli, at == "time_iso8601" || at == "time_local" || at == "msec"
	if took == "request_time" {
		s.unit, s.atEnd = second, at != "start_time"
	}
	if p.mapping.seconds {
		s.unit = second
	}
	s.atEnd = s.atEnd || p.mapping.atEnd
	return s, nil
}

// asString returns bytes as a string without a copy. They must not be written to while the
// record is used.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
