package envoyconfig

import "strings"

// header is the name of a header in lower case, or of a pseudo header.
type header string

// headerNamed returns the header that a configuration names.
func headerNamed(name string) header {
	name = strings.ToLower(name)
	if name == "host" { // which Envoy keeps as :authority
		name = ":authority"
	}
	return header(name)
}

// first returns the first value of the header, and whether it is there.
func (h header) first(t *Request) (value string, ok bool) {
	if h[0] == ':' {
		return h.pseudo(t)
	}
	for i := range t.Headers {
		if t.Headers[i].Name == string(h) {
			return t.Headers[i].Value, true
		}
	}
	return "", false
}

// any reports whether the header is there, and one of its values passes a test.
func (h header) any(t *Request, passes test) (there, passed bool) {
	if h[0] == ':' {
		value, ok := h.pseudo(t)
		return ok, ok && passes(value)
	}
	for i := range t.Headers {
		if t.Headers[i].Name == string(h) {
			there = true
			if passes(t.Headers[i].Value) {
				return true, true
			}
		}
	}
	return there, false
}

// pseudo returns the value of a pseudo header.
func (h header) pseudo(r *Request) (value string, ok bool) {
	switch h {
	case ":method":
		value = r.Method
	case ":path":
		value = r.Path
	case ":authority":
		value = r.Authority
	case ":scheme":
		value = r.Scheme
	}
	return value, value != ""
}
