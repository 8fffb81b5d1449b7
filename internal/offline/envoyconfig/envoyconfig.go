package envoyconfig

import (
	"slices"
	"strings"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// Options supply the domain if a file names none, and select one of several sets of rate limits. The tags define
// flags of commands. If a needed option is empty, Load fails. The error about From lists the possible values.
type Options struct {
	Domain string `help:"Domain of the descriptors if the file has no rate limit filter."`
	From   string `help:"Listener, route configuration or workloads to use if the file has several with rate limits."`
}

// Note describes a part of a file that the descriptors do not reflect. Location and Text have no control
// characters.
type Note struct {
	Location string `json:"location"` // file, line, column and path of the field
	Text     string `json:"text"`
}

// String returns the location of the note, followed by its text.
func (n Note) String() string { return n.Location + ": " + n.Text }

// Request is a request as Envoy's rate limit filter sees it.
type Request struct {
	// Headers are the headers of the request and its pseudo headers :method, :scheme, :authority and :path. The
	// path includes the query and is normalized, as in Envoy's log. Unknown headers are absent.
	Headers []Header
	// RemoteAddress is the trusted client address without port, as in
	// %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%. Envoy takes it from the connection or from
	// x-forwarded-for; see Config.Client. If it is not an IP address, there is no entry for it.
	RemoteAddress string
	// Route is %ROUTE_NAME%, or empty if unknown. Only EnvoyFilter patches for a named
	// route need it, because an EnvoyFilter does not say which requests the route matches.
	Route string

	path, query string // :path before and after the first ?
	cluster     string // cluster of the route
}

// Header is a header of a request. Its name is in lower case.
type Header struct{ Name, Value string }

// header returns the first value of a header, whether the request has the header, and
// whether one of the header's values passes the test. If passes is nil, all values pass.
func (t *Request) header(name string, passes test) (first string, there, passed bool) {
	for i := range t.Headers {
		if h := &t.Headers[i]; h.Name == name {
			if !there {
				first, there = h.Value, true
			}
			if passes == nil || passes(h.Value) {
				return first, true, true
			}
		}
	}
	return first, there, false
}

// Result is a descriptor that Envoy sends.
type Result struct {
	plan.Descriptor
	Domain   string
	Location string // location of the descriptor's rate limit in the file
	// Call is the index of the rate limit filter that sends the descriptor, among the rate
	// limit filters of the connection manager. Each filter sends all its descriptors with
	// the same OnStreamDone in one call, in the order of the results.
	Call         int
	OnStreamDone bool // sent after the response, too late to deny the request
}

// These are the names in Config.Needs that are not header names.
const (
	RemoteAddress = ":remote_address"
	RouteName     = ":route_name"
)

// Config computes the descriptors of requests. It is immutable and safe for concurrent use.
type Config struct {
	Notes []Note   // on the parts of the file that the descriptors do not reflect, in file order
	Needs []string // names of the headers and other properties of a request on which the descriptors depend, sorted

	domains    []domain
	ignorePort bool // ignore the port of the authority
	client     client
}

// AppendDescriptors appends to dst the descriptors that Envoy sends for a request, call by call. Calls after the
// response come last. AppendDescriptors reuses the capacity of dst and of the Entries in it. The new Entries refer to
// strings of r. AppendDescriptors changes unexported fields of r, so concurrent calls need different requests.
func (c *Config) AppendDescriptors(dst []Result, r *Request) []Result {
	authority, _, _ := r.header(":authority", nil)
	path, _, _ := r.header(":path", nil)
	r.path, r.query, _ = strings.Cut(path, "?")
	for _, route := range c.routes(authority) {
		if !passAll(route.match, r) {
			continue
		}
		r.cluster = route.cluster
		for _, done := range []bool{false, true} {
			for j := range route.filters {
				dst = route.filters[j].append(dst, r, done)
			}
		}
		return dst
	}
	return dst
}

// append appends the descriptors that f sends. If done is true, they are sent after the response, otherwise before it.
func (f *filter) append(dst []Result, t *Request, done bool) []Result {
	if internal, _, _ := t.header("x-envoy-internal", nil); f.requests != "" && (f.requests == "internal") != (internal == "true") {
		return dst
	}
	for _, l := range f.limits {
		if l.result.OnStreamDone != done {
			continue
		}
		n, ok := len(dst), true
		dst = slices.Grow(dst, 1)[:n+1]
		entries := dst[n].Entries[:0]
		for i := 0; ok && i < len(l.actions); i++ {
			a := &l.actions[i]
			value, there := a.value(t)
			if there {
				entries = append(entries, limiter.Entry{Key: a.key, Value: value})
			}
			ok = there || a.skip
		}
		if dst[n].Entries = entries; !ok {
			dst = dst[:n]
			continue
		}
		dst[n] = l.result
		dst[n].Domain, dst[n].Entries, dst[n].Call = f.domain, entries, f.number
	}
	return dst
}
