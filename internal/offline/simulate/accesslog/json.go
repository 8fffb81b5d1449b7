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

// find returns the text of the first of the names that has one, and the name; "" if none has.
func (p *Parser) find(o *fastjson.Object, n names) (text, name string) {
	for i := range n {
		if v := get(o, n[i]); v != nil {
			if text = p.text(v); text != "" && text != "-" {
				return text, n[i][0]
			}
		}
	}
	return "", ""
}

// has reports whether one of the names is there, with or without a value.
func has(o *fastjson.Object, n names) bool {
	for i := range n {
		if get(o, n[i]) != nil {
			return true
		}
	}
	return false
}

// get returns the value of a whole name, or of its parts one below the other.
func get(o *fastjson.Object, name []string) *fastjson.Value {
	v := o.Get(name[0])
	if v != nil || len(name) == 2 {
		return v
	}
	v = o.Get(name[1])
	if v == nil {
		return nil
	}
	return v.Get(name[2:]...)
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
	r.texts[Time], at = p.find(r.object, p.names[Time])
	r.texts[Duration], took = p.find(r.object, p.names[Duration])
	r.texts[Method], _ = p.find(r.object, p.names[Method])
	r.texts[Path], _ = p.find(r.object, p.names[Path])
	if r.texts[Method] == "" {
		r.texts[RequestLine], _ = p.find(r.object, p.names[RequestLine])
	}
	if r.texts[Authority], _ = p.find(r.object, p.names[Authority]); r.texts[Authority] == "" {
		r.NoRequest = has(r.object, p.names[Authority][:min(2, len(p.names[Authority]))]) // others may be of a machine
	}
	r.unread = 1<<RemoteAddress | 1<<ForwardedFor | 1<<UserAgent | 1<<RequestID | 1<<Scheme | 1<<RouteName | 1<<DirectAddress
	p.unit, p.atEnd = milli, isNginxTime(at)
	if took == "request_time" { // nginx's, in seconds
		p.unit, p.atEnd = second, at != "start_time"
	}
	if p.mapping.seconds {
		p.unit = second
	}
	p.atEnd = p.atEnd || p.mapping.atEnd
	return nil
}

// isNginxTime reports whether a field has the time of nginx, which is that of the end of a request.
func isNginxTime(name string) bool {
	return name == "time_iso8601" || name == "time_local" || name == "msec"
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

// asString returns bytes as a string without a copy. They must not be written to while the
// record is used.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
