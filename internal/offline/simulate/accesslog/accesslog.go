package accesslog

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

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

	object *fastjson.Object // nil of text
	layout *layout          // nil of JSON
	parser *Parser
}

// Get returns the value of a header by its name in lower case, of a pseudo header, or of one of the names here;
// "" if the line does not have it.
func (r *Record) Get(name string) string {
	switch {
	case name == ":method":
		return r.Method
	case name == ":path":
		return r.Path
	case r.object != nil:
		text, _, _ := r.parser.find(r.object, r.parser.namesOf(name))
		return text
	}
	if i := slices.Index(r.layout.fields, name); i >= 0 {
		return r.parser.parts[i]
	}
	return ""
}

// Parser parses lines. It is for one goroutine.
type Parser struct {
	format  Format
	mapping Mapping
	names   map[string]names // where JSON lines have what
	json    fastjson.Parser
	numbers []byte           // of the line, as text
	parts   [maxParts]string // of the line, if it is text
	hasJSON bool
}

// NewParser returns a parser of a format, by default Auto. mapping is as ParseMapping returns it.
func NewParser(format Format, mapping Mapping) *Parser {
	return &Parser{format: cmp.Or(format, Auto), mapping: mapping, names: map[string]names{}}
}

// HasJSON reports whether some line was JSON, of which a mapping could name other fields.
func (p *Parser) HasJSON() bool { return p.hasJSON }

// What may be wrong with a line.
var (
	errFormat = errors.New("unknown format")
	errTime   = errors.New("no readable time")
	errJSON   = errors.New("not a JSON object")
)

// said is what a line says of its request, as text.
type said struct {
	at, duration string
	request      string // method, path and protocol together
	path         bool   // what the path is, or that there is none
	unit         int64  // of the duration, in microseconds
	atEnd        bool   // the time is of the end of the request
}

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
	var s said
	if format == JSON {
		s, err = p.parseJSON(line, r)
	} else {
		s, err = p.parseText(asString(line), format, r)
	}
	if err != nil {
		return err
	}
	var ok bool
	if r.At, ok = parseTime(s.at); !ok {
		return errTime
	}
	if s.request != "" && r.Method == "" {
		r.Method, r.Path = splitRequest(s.request)
	}
	switch r.Path {
	case "":
		r.NoRequest = r.NoRequest || s.path && r.Method != http.MethodConnect
	case "*": // of OPTIONS
		r.NoRequest = true
	}
	if s.duration != "" {
		r.Duration = parseDuration(s.duration, s.unit)
	}
	if s.atEnd && r.Duration > 0 && r.Duration <= r.At {
		r.At -= r.Duration
	}
	return nil
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
