// Package envoyconfig reads from Envoy's own configuration how a request becomes
// descriptors, and does what Envoy does: it finds the virtual host and the route, and
// runs the actions of their rate limits.
//
//	file.go        Load: a file -> listeners, routes and manifests, and which of them is meant
//	istio.go       EnvoyFilters, as virtual hosts and routes
//	filter.go      rate limit filters, and what routes configure for them
//	hosts.go       virtual hosts and routes -> the calls that filters make for each route
//	reader.go      rate limits, and notes of what is not read
//	message.go     a value -> a message of protobuf, strictly; node.go has the values
//	envoyconfig.go Config: a request -> descriptors
//	route.go       which host and route a request has, by the tests of match.go
//	action.go      a request -> an entry, with header.go and query.go
//	client.go      x-forwarded-for -> the address of the client
//
// It reads a bootstrap, a config dump or route dump of the admin port, route
// configurations, Istio's EnvoyFilter, and a small file with the same words. It knows
// what a request shows, and nothing of clusters, runtime values, metadata or other
// filters: rate limits that need them are left out, and a Note names each. It knows no
// rules and decides nothing.
package envoyconfig

import (
	"strings"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
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

// Note is something in a file that descriptors do not show.
type Note struct {
	Place string // file, line, column and way to the field
	Text  string
	// LeftOut reports whether a rate limit is left out because of it.
	LeftOut bool

	at strictyaml.Position
}

// String is the note with its place.
func (n Note) String() string { return n.Place + ": " + n.Text }

// Request is what Envoy knows of a request when its rate limit filter runs.
type Request struct {
	Method, Scheme, Authority string // empty if not known
	Path                      string // with the query, after Envoy's normalization, as its log shows it
	Headers                   []Header
	// RemoteAddress is the trusted client address without port, as in
	// %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%. Envoy takes it from the connection or from
	// x-forwarded-for, see Config.Client. What is no IP address makes no entry.
	RemoteAddress string
	// Route is %ROUTE_NAME%, empty if not known. Only patches of an EnvoyFilter for a
	// named route need it: what that matches is in no EnvoyFilter.
	Route string

	path, query string // Path cut in two, here because it saves an allocation
}

// Header is a header of a request, no pseudo header. Its name is in lower case.
type Header struct{ Name, Value string }

// Result is a descriptor that Envoy sends.
type Result struct {
	Domain  string
	Entries []limiter.Entry
	Place   string // of its rate limit in the file
	// Call numbers Envoy's calls for the request: it is the place of the rate limit filter
	// among those of the file, from 0.
	// Descriptors with the same Call and OnStreamDone are in one call, in order.
	Call         int
	OnStreamDone bool // sent after the response, when nothing is denied anymore
	// HitsAddend is that of the descriptor itself, if HasHitsAddend.
	HasHitsAddend bool
	HitsAddend    uint64
	NegativeHits  bool // is_negative_hits
}

// Needs says what of a request is looked at, beside Headers.
type Needs struct{ Method, Scheme, Authority, Path, Query, RemoteAddress, Route bool }

// Config says how requests become descriptors. It does not change, and may be used by
// several goroutines.
type Config struct {
	hosts      hosts
	ignorePort bool // of the authority
	client     client
	notes      []Note
	headers    []string
	needs      Needs
}

// Notes are what the file says and descriptors do not show, in the order of the file.
func (c *Config) Notes() []Note { return c.notes }

// Headers are the names of the headers that are looked at, in order.
func (c *Config) Headers() []string { return c.headers }

// Needs says what else is looked at.
func (c *Config) Needs() Needs { return c.needs }

// Descriptors returns what Envoy sends for a request.
func (c *Config) Descriptors(r Request) []Result { return c.AppendDescriptors(nil, &r) }

// AppendDescriptors appends what Envoy sends for a request. It uses the memory behind
// dst's length again, also that of Entries, which hold parts of the request's strings. It
// writes to r, which therefore is of one goroutine.
func (c *Config) AppendDescriptors(dst []Result, r *Request) []Result {
	host := c.hosts.find(r.Authority, c.ignorePort)
	if host == nil || host.redirects(r) {
		return dst
	}
	r.path, r.query, _ = strings.Cut(r.Path, "?")
	for i := range host.routes {
		if route := &host.routes[i]; route.match.matches(r) {
			return route.append(dst, r)
		}
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

// rateLimit makes one descriptor of a request.
type rateLimit struct {
	actions      []action
	place        string
	onStreamDone bool
	hasHits      bool
	hits         uint64
	negative     bool
}

// append appends the descriptors of a route: those of the request, then those of its end.
func (r *route) append(dst []Result, t *Request) []Result {
	for _, done := range []bool{false, true} {
		if done && !r.onStreamDone {
			break
		}
		for i := range r.calls {
			c := &r.calls[i]
			if !c.isFor(t) {
				continue
			}
			for _, l := range c.limits {
				if l.onStreamDone == done {
					dst = l.append(dst, c, t)
				}
			}
		}
	}
	return dst
}

// isFor reports whether the filter looks at such requests.
func (c *call) isFor(t *Request) bool {
	if c.internal && c.external {
		return true
	}
	value, _ := header("x-envoy-internal").first(t)
	if value == "true" {
		return c.internal
	}
	return c.external
}

// append appends the descriptor, unless an action makes none.
func (l *rateLimit) append(dst []Result, c *call, t *Request) []Result {
	if n := len(dst); n < cap(dst) {
		dst = dst[:n+1]
	} else {
		dst = append(dst, Result{})
	}
	result := &dst[len(dst)-1]
	entries := result.Entries[:0]
	for _, a := range l.actions {
		var ok bool
		if entries, ok = a.append(entries, t); !ok {
			result.Entries = entries
			return dst[:len(dst)-1]
		}
	}
	*result = Result{
		Domain: c.domain, Entries: entries, Place: l.place, Call: c.number, OnStreamDone: l.onStreamDone,
		HasHitsAddend: l.hasHits, HitsAddend: l.hits, NegativeHits: l.negative,
	}
	return dst
}
