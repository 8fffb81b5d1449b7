package accesslog

import (
	"errors"
	"strings"
	"unsafe"

	"github.com/valyala/fastjson"
)

var errJSON = errors.New("it is not a JSON object")

// names are those that logs have for a field. The one that was found last comes first.
type names struct {
	list [][]string // each the whole name, and then its parts between dots
	last int
}

func newNames(list []string) (n names) {
	for _, name := range list {
		n.list = append(n.list, append([]string{name}, strings.Split(name, ".")...))
	}
	return n
}

// find returns the value of the first of the names that an object has, nil if none.
func (n *names) find(o *fastjson.Object) *fastjson.Value {
	if len(n.list) == 0 {
		return nil
	}
	if v := get(o, n.list[n.last]); v != nil {
		return v
	}
	for i := range n.list {
		if v := get(o, n.list[i]); v != nil {
			n.last = i
			return v
		}
	}
	return nil
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
	r.object, p.numbers = v.GetObject(), p.numbers[:0]
	for _, f := range [...]Field{Time, Duration, Method, Path} {
		r.texts[f] = p.text(p.names[f].find(r.object))
	}
	if r.texts[Method] == "" {
		r.texts[RequestLine] = p.text(p.names[RequestLine].find(r.object))
	}
	r.unread = 1<<Authority | 1<<RemoteAddress | 1<<ForwardedFor | 1<<UserAgent | 1<<RequestID | 1<<Scheme | 1<<RouteName
	p.unit = milli
	if d := &p.names[Duration]; d.list[d.last][0] == "request_time" { // nginx's, in seconds
		p.unit = second
	}
	return nil
}

// text returns a value as text: a string without its quotes, a number as it is written.
func (p *Parser) text(v *fastjson.Value) string {
	if v == nil {
		return ""
	}
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
