package envoyconfig

import (
	"slices"
	"strings"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// Options say what a file may leave open.
type Options struct {
	// Domain is the domain if no rate limit filter in the file names one, as in a route
	// dump. Load returns an error if it is needed and empty.
	Domain string
	// From names the listener, or without listeners the route configuration, to take if
	// the file has several with rate limits. The error of Load names them.
	From string
}

// Note is something in a file that descriptors do not show. Its texts can be shown as they are.
type Note struct {
	Place string `json:"place"` // file, line, column and way to the field
	Text  string `json:"text"`
}

// String is the note with its place.
func (n Note) String() string { return n.Place + ": " + n.Text }

// Request is what Envoy knows of a request when its rate limit filter runs.
type Request struct {
	// Headers are those of the request and its pseudo headers :method, :scheme, :authority and :path, the path with
	// its query, after Envoy's normalization, as its log shows it. What is not known is not there.
	Headers []Header
	// RemoteAddress is the trusted client address without port, as in
	// %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%. Envoy takes it from the connection or from
	// x-forwarded-for, see Config.Client. What is no IP address makes no entry.
	RemoteAddress string
	// Route is %ROUTE_NAME%, empty if not known. Only patches of an EnvoyFilter for a
	// named route need it: what that matches is in no EnvoyFilter.
	Route string

	path, query string // :path cut in two
	cluster     string // of the route
}

// Header is a header of a request. Its name is in lower case.
type Header struct{ Name, Value string }

// header returns the first value of a header, whether there is one, and whether any
// passes a test. Without a test all do.
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
	Domain string
	Place  string // of its rate limit in the file
	// Call numbers Envoy's calls for the request: it is the place of the rate limit filter
	// among those of the file, from 0.
	// Descriptors with the same Call and OnStreamDone are in one call, in order.
	Call         int
	OnStreamDone bool // sent after the response, when nothing is denied anymore
}

// Names in Config.Needs of what is no header.
const (
	RemoteAddress = ":remote_address"
	RouteName     = ":route_name"
)

// Config says how requests become descriptors. It does not change, and may be used by
// several goroutines.
type Config struct {
	hosts  *hosts
	client client
	notes  []Note
	needs  []string
}

// Notes are what the file says and descriptors do not show, in the order of the file.
func (c *Config) Notes() []Note { return c.notes }

// Needs are the names of the headers and of what else of a request is looked at, in order.
func (c *Config) Needs() []string { return c.needs }

// Descriptors returns what Envoy sends for a request.
func (c *Config) Descriptors(r Request) []Result { return c.AppendDescriptors(nil, &r) }

// AppendDescriptors appends what Envoy sends for a request, call by call, those at its end last. It uses the memory behind
// dst's length again, also that of Entries, which hold parts of the request's strings. It
// writes to r, which therefore is of one goroutine.
func (c *Config) AppendDescriptors(dst []Result, r *Request) []Result {
	authority, _, _ := r.header(":authority", nil)
	path, _, _ := r.header(":path", nil)
	r.path, r.query, _ = strings.Cut(path, "?")
	for _, route := range c.hosts.find(authority) {
		if !passAll(route.match, r) {
			continue
		}
		r.cluster = route.cluster
		for _, done := range []bool{false, true} {
			for j := range route.calls {
				dst = route.calls[j].append(dst, r, done)
			}
		}
		return dst
	}
	return dst
}

// call is a call that a rate limit filter makes.
type call struct {
	number             int
	domain             string
	internal, external bool // whether for such requests
	limits             []*rateLimit
}

// append appends the descriptors that are sent when a request is done, or those sent before.
func (c *call) append(dst []Result, t *Request, done bool) []Result {
	if internal, _, _ := t.header("x-envoy-internal", nil); internal == "true" && !c.internal || internal != "true" && !c.external {
		return dst
	}
	for _, l := range c.limits {
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
		dst[n].Domain, dst[n].Entries, dst[n].Call = c.domain, entries, c.number
	}
	return dst
}
