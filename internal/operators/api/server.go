package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Server is what operators can see and do. All of it must be set, unless it says otherwise,
// and be safe for concurrent use. Errors of functions with a context are of a Kind, where
// there is one for them.
type Server struct {
	Access *Access
	Logger *slog.Logger // takes the audit log, too
	// Status returns how the server is.
	Status func() Status
	// Metrics is what GET /stats shows, and Console what is at /console.
	Metrics, Console http.Handler
	// Dump writes the rules that serve, one per line. It writes nothing if it fails.
	Dump func(io.Writer) error
	// Reload loads the rules anew, or stops waiting for that when its context ends. Its
	// error is an ErrInvalidRules if they were read but are wrong, and is shown whole.
	Reload func(context.Context) error

	Tree  func() *descriptors.Tree // the rules that serve, nil if there are none yet
	Store limiter.CounterStore
	Plan  plan.Options // how requests become hits
	// ShowKeys shows the keys of counters, because others can look at them, too.
	ShowKeys bool
	// Announce has other servers forget which counters are over. nil: there are none.
	Announce func(context.Context) error

	// Denials and Exceptions are of this server, or of all that share its Redis. peer is who
	// changes something, by the address, and by what they say themselves.
	Denials         func(ctx context.Context, all bool) (Denials, error)
	Exceptions      func(ctx context.Context, all bool) (Exceptions, error)
	AddException    func(ctx context.Context, e NewException, peer string) (Exception, error)
	RemoveException func(ctx context.Context, id, by, peer string) error
}

// route is a path of the debug port.
type route struct {
	method, path string // "": every method
	class        class
	text         string // for the list on the status page, "" for none
	handler      http.Handler
}

// routes are all paths of the debug port, but for the list of them.
func (s *Server) routes() []route {
	rules := NewPage(http.HandlerFunc(s.rules), func() any { return s.Status().Rules })
	return slices.Concat([]route{
		{"GET", "/status", open, "this page as JSON", answer(http.StatusOK, func(*http.Request) (any, error) { return s.Status(), nil })},
		{"GET", "/stats", open, "the metrics", s.Metrics},
		{"GET", "/console", own, "a page for people", s.Console},
		{"", "/console/", own, "", s.Console},
		{"GET", "/rlconfig", values, "the rules that serve", rules},
	}, s.denialRoutes(), s.counterRoutes(), s.exceptionRoutes(), []route{
		{"POST", "/-/reload", changes, "load the rules now", s.reload(&rate.Sometimes{Interval: time.Second})},
		{"", "/debug/pprof/", values, "profiles", profiles(profilePause)},
	})
}

// Handler serves the routes, and at / the status with a list of them.
func (s *Server) Handler() http.Handler {
	mux, list := http.NewServeMux(), ""
	for _, r := range s.routes() {
		mux.Handle(strings.TrimSpace(r.method+" "+r.path), s.Access.guard(r.class, r.handler))
		if r.text != "" {
			list += fmt.Sprintf("%-6s %-16s %s%s\n", cmp.Or(r.method, http.MethodGet), r.path, r.text, s.Access.whom(r.class))
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		fmt.Fprint(w, s.Status(), "\n", list)
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

// rules shows those that serve.
func (s *Server) rules(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	if err := s.Dump(w); err != nil {
		fail(w, err, plaintext.Lines)
	}
}

// reload loads the rules, and logs who wanted it, once a second if they go on.
func (s *Server) reload(audit *rate.Sometimes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		audit.Do(func() { s.Logger.Info("the rules are loaded on request", "audit", true, "peer", VisitorOf(r).Peer) })
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a load takes what it takes; a recorder in a test has none
		if err := s.Reload(r.Context()); err != nil {
			fail(w, err, plaintext.Lines)
			return
		}
		plain(w)
		fmt.Fprintln(w, "rules loaded")
	}
}
