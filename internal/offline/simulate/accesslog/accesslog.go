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

// Format is a format of log lines.
type Format string

// These are the known formats. Auto detects the format of each line.
const (
	Auto  Format = "auto"
	JSON  Format = "json"
	Envoy Format = "envoy"
	Istio Format = "istio"
	Nginx Format = "nginx"
)

// Record is a parsed line. Its strings may contain any bytes. They refer to the memory of the
// line and of the parser, and are invalid after the next line is parsed.
type Record struct {
	// At is the time at which the request began, in microseconds since the epoch. For a line of
	// nginx without a duration, it is the time at which the request ended.
	At       int64
	Duration int64 // duration of the request in microseconds, or -1 if the line has none
	// NoRequest is true if the path is * or, except for CONNECT, empty, or if the authority is empty. Then the proxy's
	// filters saw no request, for example because of a TLS handshake on an HTTP port. A missing field is not empty.
	NoRequest    bool
	Method, Path string // the path includes the query

	json   *fastjson.Value // nil for a text line
	layout *layout         // nil for a JSON line
	parser *Parser
}

// Get returns the value of a header or pseudo header by its name in lower case, or of RemoteAddress, DirectAddress or
// RouteName. It returns "" if the line has no value.
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

// find returns the value of a property and the JSON field that has the value. It also returns whether the line has
// any field for the property, even an empty field.
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

// Parser parses lines. It is not safe for concurrent use.
type Parser struct {
	format  Format
	fields  map[string][]field // JSON fields by property; see fieldsOf
	json    fastjson.Parser
	numbers []byte   // memory for numbers of the line, as text
	inner   []byte   // memory for a line after unwrap
	shows   []string // properties that only requests have: requestFields and the mapping's, except time and duration
	parts   []string // parts of a text line
}

// NewParser returns a parser for a format, or for Auto if format is empty. mapping is a result of ParseMapping.
func NewParser(format Format, mapping Mapping) *Parser {
	fields := map[string][]field{}
	for _, k := range known {
		for _, name := range k.json {
			fields[k.is] = append(fields[k.is], newField(k.called, name))
		}
	}
	shows := slices.Clone(requestFields)
	for is, own := range mapping {
		fields[is] = []field{own}
		if is != timeField && is != durationField {
			shows = append(shows, is)
		}
	}
	return &Parser{format: cmp.Or(format, Auto), fields: fields, shows: shows}
}

var (
	errFormat    = errors.New("unknown format")
	errNoRequest = errors.New("no field of a request, such as method, path or status")
)

// unwrap returns a line as the proxy wrote it, without the additions of kubectl logs --prefix, of
// Docker's json-file driver, of container runtimes in Kubernetes (CRI), and of Emissary.
func (p *Parser) unwrap(line string) string {
	if strings.HasPrefix(line, "[pod/") {
		_, line, _ = strings.Cut(line, "] ")
	}
	if strings.HasPrefix(line, `{"log":`) {
		if v, err := p.json.Parse(line); err == nil && v.Exists("stream") {
			p.inner = append(p.inner[:0], v.GetStringBytes("log")...) // p.json is reused for the inner line
			line = strings.TrimRight(asString(p.inner), "\r\n")
		}
	}
	if _, rest, found := strings.Cut(line, " "); found && strings.HasPrefix(rest, "std") {
		if stream, text, _ := strings.Cut(rest, " F "); stream == "stdout" || stream == "stderr" {
			line = text
		}
	}
	return strings.TrimPrefix(line, "ACCESS ")
}

// Parse parses a line and stores the result in r, which refers to the memory of the line. If Parse fails, r is invalid.
func (p *Parser) Parse(written []byte, r *Record) (err error) {
	*r = Record{Duration: -1, parser: p}
	line := p.unwrap(asString(written))
	if line == "" {
		return errFormat
	}
	format := p.format
	if format == Auto {
		switch line[0] {
		case '{', ' ', '\t':
			format = JSON
		case '[': // Envoy's or Istio's format, which differ in the number of parts
		default:
			format = Nginx
		}
	}
	if format == JSON {
		r.json, err = p.json.Parse(line)
		p.numbers = p.numbers[:0]
		if err != nil || r.json.Type() != fastjson.TypeObject {
			return errors.New("not a JSON object")
		}
	} else if r.layout = p.parseText(line, format); r.layout == nil {
		return errFormat
	}
	at, time, _ := r.find(timeField)
	var ok bool
	if r.At, ok = parseTime(at); !ok {
		return errors.New("no readable time")
	}
	if text, took, _ := r.find(durationField); text != "" {
		// nginx logs durations in seconds, and the time at which a request ended.
		nginx := took.name == requestTime
		r.Duration = parseDuration(text, nginx || took.called == durationSeconds)
		if (time.called == endTime || nginx && time.name != startTime) && r.Duration > 0 && r.Duration <= r.At {
			r.At -= r.Duration
		}
	}
	has := func(is string) bool { _, _, there := r.find(is); return there }
	if format == JSON && !slices.ContainsFunc(p.shows, has) {
		return errNoRequest
	}
	r.readRequest()
	return nil
}

// readRequest sets Method, Path and NoRequest.
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
	case "*": // OPTIONS *
		r.NoRequest = true
	}
	r.NoRequest = r.NoRequest || saysAuthority && authority == ""
}

// splitRequest splits a request line such as "GET /a HTTP/1.1". The path may contain spaces. It is empty for CONNECT.
// If the text is not a request line, method and path are empty.
func splitRequest(line string) (method, path string) {
	method, path, _ = strings.Cut(line, " ")
	if end := strings.LastIndexByte(path, ' '); end >= 0 {
		path = path[:end]
	}
	if _, after, ok := strings.Cut(path, "://"); ok && path[0] != '/' { // an absolute URL
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

// text returns a JSON value as text: a string without quotes, or a number or boolean as in JSON. It returns "" for all
// other values.
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

// asString returns bytes as a string without a copy. The bytes must not change while the
// string is in use.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
