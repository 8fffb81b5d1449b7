package accesslog

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unsafe"

	"github.com/valyala/fastjson"
)

// Format is how lines are written.
type Format string

// The formats. Auto takes each line for what it looks like.
const (
	Auto  Format = "auto"
	JSON  Format = "json"
	Envoy Format = "envoy"
	Istio Format = "istio"
	Nginx Format = "nginx"
)

// Record is what one line says. Its texts are those of the line and hold any bytes: they
// are void when the next line is parsed.
type Record struct {
	// At is when the request began, in microseconds since the epoch. Of a line of nginx without a
	// duration it is when the request ended.
	At       int64
	Duration int64 // how long it took, in microseconds; -1: the line does not say
	// NoRequest reports whether no filter of a proxy saw the request: the line says that it has no path, as a
	// TLS handshake where HTTP is expected, or no authority. It is false if the line says nothing of them.
	NoRequest    bool
	Method, Path string // the path with the query

	json   *fastjson.Value // nil of text
	layout *layout         // nil of JSON
	parser *Parser
}

// Get returns the value of a header by its name in lower case, of a pseudo header, or of one of the names here;
// "" if the line does not have it.
func (r *Record) Get(name string) string {
	switch name {
	case ":method":
		return r.Method
	case ":path":
		return r.Path
	}
	text, _, _ := r.find(name)
	return text
}

// find returns the value of something, which field that is of, and whether the line has it, with or without a value.
func (r *Record) find(is string) (text string, of field, there bool) {
	if r.layout != nil {
		i := slices.Index(r.layout.fields, is)
		if i >= 0 {
			text = r.parser.parts[i]
		}
		return text, of, i >= 0
	}
	for _, f := range r.parser.fieldsOf(is) {
		v := r.json.Get(f.name)
		if v == nil {
			v = r.json.Get(f.path...)
		}
		if v == nil {
			continue
		}
		if text = r.parser.text(v); text != "" && text != "-" {
			return text, f, true
		}
		there = true
	}
	return "", of, there
}

// Parser parses lines. It is for one goroutine.
type Parser struct {
	format  Format
	mapping Mapping
	fields  map[string][]field // where JSON lines have what
	json    fastjson.Parser
	numbers []byte           // of the line, as text
	parts   [maxParts]string // of the line, if it is text
}

// NewParser returns a parser of a format, by default Auto. mapping is as ParseMapping returns it.
func NewParser(format Format, mapping Mapping) *Parser {
	return &Parser{format: cmp.Or(format, Auto), mapping: mapping, fields: map[string][]field{}}
}

// What may be wrong with a line.
var (
	errFormat = errors.New("unknown format")
	errTime   = errors.New("no readable time")
	errJSON   = errors.New("not a JSON object")
)

// Parse reads a line. An error says why it cannot; r is void then.
func (p *Parser) Parse(line []byte, r *Record) (err error) {
	*r = Record{Duration: -1, parser: p}
	if len(line) == 0 {
		return errFormat
	}
	format := p.format
	if format == Auto {
		switch line[0] {
		case '{', ' ', '\t':
			format = JSON
		case '[': // Envoy or Istio, which are told apart by how many parts they have
		default:
			format = Nginx
		}
	}
	if format == JSON {
		r.json, err = p.json.ParseBytes(line)
		p.numbers = p.numbers[:0]
		if err != nil || r.json.Type() != fastjson.TypeObject {
			return errJSON
		}
	} else if r.layout = p.parseText(asString(line), format); r.layout == nil {
		return errFormat
	}
	at, time, _ := r.find(timeField)
	var ok bool
	if r.At, ok = parseTime(at); !ok {
		return errTime
	}
	if text, took, _ := r.find(durationField); text != "" {
		// nginx writes seconds, and when a request ended.
		nginx := took.name == requestTime
		r.Duration = parseDuration(text, nginx || took.called == durationSeconds)
		if (time.called == endTime || nginx && time.name != startTime) && r.Duration > 0 && r.Duration <= r.At {
			r.At -= r.Duration
		}
	}
	r.readRequest()
	return nil
}

// readRequest reads the method and the path.
func (r *Record) readRequest() {
	r.Method, _, _ = r.find(":method")
	path, _, saysPath := r.find(":path")
	r.Path = path
	if r.Method == "" {
		request, _, there := r.find(requestField)
		if saysPath = saysPath || there; request != "" {
			r.Method, r.Path = splitRequest(request)
		}
	}
	authority, _, saysAuthority := r.find(":authority")
	switch r.Path {
	case "":
		r.NoRequest = saysPath && r.Method != http.MethodConnect
	case "*": // of OPTIONS
		r.NoRequest = true
	}
	r.NoRequest = r.NoRequest || saysAuthority && authority == ""
}

// splitRequest splits such as "GET /a HTTP/1.1". A path may hold blanks. Both are empty of what is no request,
// the path is of CONNECT.
func splitRequest(line string) (method, path string) {
	method, path, _ = strings.Cut(line, " ")
	if end := strings.LastIndexByte(path, ' '); end >= 0 {
		path = path[:end]
	}
	if _, after, ok := strings.Cut(path, "://"); ok && path[0] != '/' { // the absolute form
		_, path, _ = strings.Cut(after, "/")
		path = "/" + path
	}
	switch {
	case method == "" || method[0] < 'A' || method[0] > 'z':
		return "", ""
	case path == "*" || strings.HasPrefix(path, "/"):
		return method, path
	case method == http.MethodConnect:
		return method, ""
	default:
		return "", ""
	}
}

// text returns a value of JSON as text: a string without its quotes, a number as it is written.
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
