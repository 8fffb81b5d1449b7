package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

// class says who may use a route.
type class int

const (
	open    class = iota // everybody who reaches the port
	values               // it shows values of requests, or costs much
	changes              // it changes something
	own                  // its handler asks Access itself
)

// route is a path of the debug listener. One without a handler is not there.
type route struct {
	method, path string // "": every method
	class        class
	gate         *gate // nil: none
	handler      http.Handler
	text         string // for the list on the status page, "" for none
}

// routes are all paths of the debug listener.
func (d *pages) routes() []route {
	few := func(path string) *gate { return newGate(path, denialsAtOnce, placeTime) }
	some := newGate("requests to counters and exceptions", operationsAtOnce, 0) // which are short, and end
	return []route{
		{"GET", "/{$}", open, nil, http.HandlerFunc(d.status), ""},
		{"GET", "/status", open, nil, http.HandlerFunc(d.state), "this page as JSON"},
		{"GET", "/stats", open, nil, d.Metrics.Handler(), "the metrics"},
		{"GET", "/console", own, nil, d.Console, "a page for people"},
		{"", "/console/", own, nil, d.Console, ""},
		{"POST", "/console/signin", own, nil, d.Access.signIn(d.SignInRefused), ""},
		{"POST", "/console/signout", own, nil, http.HandlerFunc(d.Access.signOut), ""},
		{"GET", "/rlconfig", values, newGate("/rlconfig", rulesAtOnce, placeTime), http.HandlerFunc(d.rules), "the rules that serve"},
		{"GET", "/denials", values, few("/denials"), there(d.Denials != nil, d.denials), "what was denied lately, of every replica with ?replicas=all"},
		{"POST", "/peek", values, some, there(d.Peek != nil, d.peek), "the counters of a descriptor"},
		{"POST", "/reset", changes, some, there(d.Reset != nil, d.reset), "set the counters of a descriptor to zero"},
		{"GET", "/exceptions", values, few("/exceptions"), there(d.Exceptions != nil, d.exceptions), "the exceptions in force"},
		{"POST", "/exceptions", changes, some, there(d.AddException != nil, d.addException), "add an exception"},
		{"DELETE", "/exceptions/{id}", changes, some, there(d.RemoveException != nil, d.removeException), "remove an exception"},
		{"POST", "/-/reload", changes, nil, http.HandlerFunc(d.reload), "load the rules now"},
		{"", "/debug/pprof/", values, newGate("/debug/pprof/", profilesAtOnce, 0), profiles(profilePause), "profiles"},
	}
}

// there returns handle, or nil if it is not there.
func there(is bool, handle http.HandlerFunc) http.Handler {
	if !is {
		return nil
	}
	return handle
}

// Handler serves the routes. Who may not use one takes no place at its gate.
func (d Debug) Handler() http.Handler {
	p := &pages{Debug: d}
	mux := http.NewServeMux()
	for _, r := range p.routes() {
		if r.handler == nil {
			continue
		}
		handler := r.handler
		if r.gate != nil {
			handler = r.gate.around(handler)
		}
		switch r.class {
		case values:
			handler = d.Access.Values(handler)
		case changes:
			handler = d.Access.Changes(handler)
		}
		mux.Handle(strings.TrimSpace(r.method+" "+r.path), handler)
		if r.text != "" {
			p.list += fmt.Sprintf("%-6s %-16s %s%s\n", cmp.Or(r.method, http.MethodGet), r.path, r.text, d.Access.whom(r.class))
		}
	}
	return http.MaxBytesHandler(mux, bodyBytes)
}

// whom says who may use a route.
func (a *Access) whom(c class) string {
	switch {
	case c == open:
		return ""
	case !a.HasToken():
		return " (from this machine)"
	case c == changes:
		return " (with the token)"
	default:
		return " (with the token, or from this machine)"
	}
}
