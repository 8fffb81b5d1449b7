// Package accesslog reads access logs: when each request came, and what of it a proxy
// wrote down.
//
//	accesslog.go  Parser, Record: a line -> what it says
//	text.go       formats of text: Envoy's and Istio's default, nginx combined
//	json.go       JSON lines: Envoy's, Istio's, and others by the names of their fields
//	time.go       times in all of them
//	source.go     Source: a file, gzip or not -> blocks of whole lines
//
// It knows nothing of rate limits, and judges no request.
package accesslog

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"weir/internal/descriptors/spelling"
)

// Format is how lines are written.
type Format uint8

// The formats. Auto takes each line for what it looks like.
const (
	Auto Format = iota
	JSON
	Envoy
	Istio
	Nginx
)

var formats = [...]string{Auto: "auto", JSON: "json", Envoy: "envoy", Istio: "istio", Nginx: "nginx"}

// ParseFormat finds a format by its name.
func ParseFormat(name string) (Format, bool) {
	i := slices.Index(formats[:], name)
	return Format(max(i, 0)), i >= 0
}

// Field is something that a log says of a request.
type Field uint8

// The fields that have a meaning of their own. All else is a header.
const (
	Time Field = iota
	Duration
	Method
	Path // with the query
	Authority
	RemoteAddress // may have a port
	ForwardedFor
	UserAgent
	RequestID
	Scheme
	RouteName
	DirectAddress // of the connection; may have a port
	RequestLine   // method, path and protocol together
	// Fields is how many there are.
	Fields
)

// fields has the name of each field in mappings, the header that it is, and the names
// that JSON logs have for it, the usual one first.
var fields = [Fields]struct {
	name, header string
	json         []string
}{
	Time:          {"time", "", []string{"start_time", "time", "@timestamp", "timestamp", "time_iso8601", "time_local", "ts", "msec"}},
	Duration:      {"duration", "", []string{"duration", "request_time"}},
	Method:        {"method", ":method", []string{"method", ":method", "request_method"}},
	Path:          {"path", ":path", []string{"path", "x-envoy-origin-path", ":path", "request_uri", "uri", "url"}},
	Authority:     {"authority", ":authority", []string{"authority", ":authority", "host", "http_host"}},
	RemoteAddress: {"remote_address", "", []string{"downstream_remote_address", "remote_address", "remote_addr", "client_ip"}},
	ForwardedFor:  {"forwarded_for", "x-forwarded-for", []string{"x_forwarded_for", "x-forwarded-for", "http_x_forwarded_for"}},
	UserAgent:     {"user_agent", "user-agent", []string{"user_agent", "user-agent", "http_user_agent"}},
	RequestID:     {"request_id", "x-request-id", []string{"request_id", "x-request-id"}},
	Scheme:        {"scheme", ":scheme", []string{"scheme", ":scheme"}},
	RouteName:     {"route_name", "", []string{"route_name"}},
	DirectAddress: {"direct_remote_address", "", []string{"downstream_direct_remote_address"}},
	RequestLine:   {"request", "", []string{"request"}},
}

// Record is what one line says. Its texts are those of the line and hold any bytes: they
// are void when the next line is parsed.
type Record struct {
	// At is when the request began, in microseconds since the epoch. Of a line of nginx without a
	// duration it is when the request ended.
	At       int64
	Duration int64 // how long it took, in microseconds; -1: the line does not say
	// NoRequest reports whether no filter of a proxy saw the request: the line says that it has no path, as a
	// TLS handshake where HTTP is expected, or no authority. It is false if the line says nothing of them.
	NoRequest bool

	texts    [Fields]string
	object   *fastjson.Object // nil of text
	saysPath bool             // the line says what the path is, or that there is none
	parser   *Parser
}

// Get returns a field of text, "" if the line does not have it.
func (r *Record) Get(f Field) string {
	if r.texts[f] == "" && r.object != nil && f != Path && f != Method {
		r.texts[f], _, _ = r.parser.find(r.object, r.parser.names[f])
	}
	return r.texts[f]
}

// Header returns the value of a request header by its name in lower case, and whether
// the line has it.
func (r *Record) Header(name string) (value string, ok bool) {
	h := r.parser.header(name)
	if h.field != Fields {
		value = r.Get(h.field)
	}
	if value == "" && r.object != nil {
		value, _, _ = r.parser.find(r.object, h.names)
	}
	return value, value != ""
}

// Parser parses lines. It is for one goroutine.
type Parser struct {
	format  Format
	mapping Mapping
	names   [Fields]names
	headers map[string]*header
	json    fastjson.Parser
	parts   [maxParts]string
	unit    int64  // of durations, in microseconds
	atEnd   bool   // the time is of the end of the request
	numbers []byte // of the line, as text
	hasJSON bool
}

// header is where the value of a header is.
type header struct {
	field Field // Fields: none
	names names // in JSON
}

// NewParser returns a parser of a format. mapping is as ParseMapping returns it.
func NewParser(format Format, mapping Mapping) *Parser {
	p := &Parser{format: format, mapping: mapping, headers: map[string]*header{}}
	for f := range fields {
		list := fields[f].json
		if own := mapping.fields[f]; own != "" {
			list = []string{own}
		}
		p.names[f] = newNames(list)
	}
	for name, own := range mapping.headers {
		p.headers[name] = &header{field: Fields, names: newNames([]string{own})}
	}
	return p
}

// header returns where to look for a header.
func (p *Parser) header(name string) *header {
	h := p.headers[name]
	if h == nil {
		snake := strings.ReplaceAll(name, "-", "_")
		h = &header{field: Fields, names: newNames([]string{name, snake, "http_" + snake})} // the last is nginx's
		for f := range fields {
			if fields[f].header == name {
				h.field, h.names = Field(f), newNames(nil)
			}
		}
		p.headers[strings.Clone(name)] = h
	}
	return h
}

// HasJSON reports whether some line was JSON, of which a mapping could name other fields.
func (p *Parser) HasJSON() bool { return p.hasJSON }

// Mapping says where JSON lines have the fields. The zero value leaves it to the usual names.
type Mapping struct {
	fields  [Fields]string
	headers map[string]string
	atEnd   bool // the time is of the end of a request
	seconds bool // durations are in seconds, not in milliseconds
}

// Names in mappings for a time and a duration of another kind.
const (
	endTime         = "end_time"
	durationSeconds = "duration_seconds"
)

// ParseMapping reads pairs such as end_time=ts, remote_address=client.ip and header:x-user=user, each name once.
// A dot leads into an object unless a field is called so.
func ParseMapping(pairs []string) (m Mapping, err error) {
	m.headers = map[string]string{}
	said := map[string]string{} // what a pair names: the pair
	for _, pair := range pairs {
		name, field, ok := strings.Cut(pair, "=")
		if !ok || name == "" || field == "" {
			return m, fmt.Errorf("%q is not NAME=FIELD, such as time=ts", pair)
		}
		if header, ok := strings.CutPrefix(name, "header:"); ok {
			name = strings.ToLower(name)
			m.headers[strings.ToLower(header)] = field
		} else {
			m.atEnd, m.seconds = m.atEnd || name == endTime, m.seconds || name == durationSeconds
			f, err := fieldOf(name, pair)
			if err != nil {
				return m, err
			}
			name, m.fields[f] = fields[f].name, field
		}
		if before, ok := said[name]; ok {
			return m, fmt.Errorf("%q: %q says that already", pair, before)
		}
		said[name] = pair
	}
	return m, nil
}

// fieldOf returns the field that a pair names.
func fieldOf(name, pair string) (Field, error) {
	var known []string
	for f := range fields {
		of := []string{fields[f].name}
		switch Field(f) {
		case Time:
			of = append(of, endTime)
		case Duration:
			of = append(of, durationSeconds)
		}
		if slices.Contains(of, name) {
			return Field(f), nil
		}
		known = append(known, of...)
	}
	hint := ""
	if nearest := spelling.Nearest(name, known); nearest != "" {
		hint = fmt.Sprintf(", did you mean %q?", nearest)
	}
	return 0, fmt.Errorf("unknown name %q in %q%s; allowed are %s, and header:NAME", name, pair, hint, strings.Join(known, ", "))
}

// What may be wrong with a line.
var (
	errFormat = errors.New("it has no known format")
	errTime   = errors.New("it has no time that can be read")
)

// Parse reads a line. An error says why it cannot; r is void then.
func (p *Parser) Parse(line []byte, r *Record) error {
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
	var err error
	if format == JSON {
		err = p.parseJSON(line, r)
	} else {
		err = p.parseText(asString(line), format, r)
	}
	if err != nil {
		return err
	}
	var ok bool
	if r.At, ok = parseTime(r.texts[Time]); !ok {
		return errTime
	}
	if line := r.texts[RequestLine]; line != "" && r.texts[Method] == "" {
		r.texts[Method], r.texts[Path] = splitRequest(line)
	}
	switch r.texts[Path] {
	case "":
		r.NoRequest = r.NoRequest || r.saysPath && r.texts[Method] != http.MethodConnect
	case "*": // of OPTIONS
		r.NoRequest = true
	}
	if d := r.texts[Duration]; d != "" {
		r.Duration = parseDuration(d, p.unit)
	}
	if p.atEnd && r.Duration > 0 && r.Duration <= r.At {
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
