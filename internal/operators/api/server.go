package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
)

// Server is what operators can see and do over HTTP. All of it must be set, and be safe for
// concurrent use.
type Server struct {
	*operators.Desk
	Access *Access
	// Status returns how the server is.
	Status func() Status
	// Metrics is what GET /stats shows, and Console what is at /console.
	Metrics, Console http.Handler
	// Dump writes the rules that serve, one per line. It writes nothing if it fails.
	Dump func(io.Writer) error
	// Reload loads the rules anew, or stops waiting for that when its context ends. Its
	// error is an ErrInvalidRules if they were read but are wrong, and is shown whole.
	Reload func(context.Context) error
}

// endpoint is a path of the debug port.
type endpoint struct {
	method, path string // "": every method
	class        class
	help         string // for the list on the status page, "" for none
	handler      http.Handler
}

// endpoints are all paths of the debug port, but for the list of them.
func (s *Server) endpoints() []endpoint {
	rules := NewPage(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		if err := s.Dump(w); err != nil {
			fail(w, err, plaintext.Lines)
		}
	}), func() any { return s.Status().Rules })
	audit := &rate.Sometimes{Interval: time.Second}
	return []endpoint{
		{"GET", "/status", open, "this page as JSON", answer(http.StatusOK, func(*http.Request) (any, error) { return s.Status(), nil })},
		{"GET", "/stats", open, "the metrics", s.Metrics},
		{"GET", "/console", own, "the console, for browsers", s.Console},
		{"", "/console/", own, "", s.Console},
		{"GET", "/rlconfig", values, "the rules in use", rules},
		{"GET", "/denials", values, "recent denials, of all servers with ?servers=all", ofAll(s.Denials)},
		{"POST", "/peek", values, "the counters of a descriptor", posted(http.StatusOK, func(r *http.Request, d operators.Descriptor) (any, error) {
			return s.Peek(r.Context(), d)
		})},
		{"POST", "/reset", changes, "set the counters of a descriptor to zero", posted(http.StatusOK, func(r *http.Request, d operators.Descriptor) (any, error) {
			return named(r, func(ctx context.Context, by, peer string) (any, error) { return s.Reset(ctx, d, by, peer) })
		})},
		{"GET", "/exceptions", values, "the exceptions in force", ofAll(s.Exceptions)},
		{"POST", "/exceptions", changes, "add an exception", posted(http.StatusCreated, func(r *http.Request, e operators.NewException) (any, error) {
			return s.AddException(r.Context(), e, VisitorOf(r).Peer)
		})},
		{"DELETE", "/exceptions/{id}", changes, "remove an exception", answer(http.StatusNoContent, func(r *http.Request) (any, error) {
			return named(r, func(ctx context.Context, by, peer string) (any, error) {
				return nil, s.InForce.Remove(ctx, r.PathValue("id"), by, peer)
			})
		})},
		{"POST", "/-/reload", changes, "reload the rules", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a load takes what it takes; a recorder in a test has none
			audit.Do(func() { s.Logger.Info("the rules are loaded on request", "audit", true, "peer", VisitorOf(r).Peer) })
			if err := s.Reload(r.Context()); err != nil {
				fail(w, err, plaintext.Lines)
				return
			}
			plain(w)
			fmt.Fprintln(w, "rules loaded")
		})},
		{"", "/debug/pprof/", values, "profiles", profiles(profilePause)},
	}
}

// Handler serves the endpoints, and at / the status with a list of them.
func (s *Server) Handler() http.Handler {
	mux, list := http.NewServeMux(), ""
	for _, r := range s.endpoints() {
		mux.Handle(strings.TrimSpace(r.method+" "+r.path), s.Access.guard(r.class, r.handler))
		if r.help != "" {
			list += fmt.Sprintf("%-6s %-16s %s%s\n", cmp.Or(r.method, http.MethodGet), r.path, r.help, s.Access.whom(r.class))
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		status := s.Status()
		fmt.Fprint(w, status.Text(operators.Times{Now: time.Now().UTC()}), "\n", list)
	})
	return http.MaxBytesHandler(mux, bodyBytes)
}

// whom says who may use a route.
func (a *Access) whom(c class) string {
	switch {
	case c == open:
		return ""
	case a.token == nil:
		return " (from this machine)"
	case c == changes:
		return " (with the token)"
	default:
		return " (with the token, or from this machine)"
	}
}
