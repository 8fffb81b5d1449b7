// Package api is the debug port, which answers operators in JSON or text.
//
// The table of endpoints has a row for each path. Access decides whether the sender of a request
// may use the path. A function then decodes the request and answers with data of operators.Desk or of
// the server.
//
//	server.go   Server: the table of endpoints, bodies and answers
//	access.go   Access: the token, the cookie, loopback
//	status.go   Status: the state of the server, in JSON and by the template status.txt
//	page.go     large pages, rendered once for all readers
//
// To add a question of operators, add its type and work in operators, its row here, its question
// and text in client, and its command in cmd/server/operators.go.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Server answers operators over HTTP. All fields must be set and safe for concurrent use.
type Server struct {
	*operators.Desk
	Access  *Access
	Status  func() Status
	Metrics http.Handler // for GET /stats
	Console []Endpoint
	Dump    func(io.Writer) error // writes the rules in use, one per line, or nothing if it fails
	// Reload loads the rules again. Reload returns an ErrInvalidRules if the rules were read,
	// but are invalid. The HTTP answer has the full text of the error.
	Reload func() error
}

// Class is a class of endpoints that the same senders may use.
type Class int

// The classes of endpoints.
const (
	Open    Class = iota // for everybody who reaches the port
	Values               // shows values of requests, or is expensive
	Changes              // changes something
)

// Endpoint is a path of the debug port.
type Endpoint struct {
	Method, Path string // an empty Method means every method
	Class        Class
	Help         string // for the list on the status page; not listed if empty
	MaxBody      int64  // maximum size of a request's body; 0 means bodyBytes
	Handler      http.HandlerFunc
	SignIn       http.HandlerFunc // answers senders who need a token; if nil, they get a line of text
}

// endpoints returns all endpoints except the status page, which lists them.
func (s *Server) endpoints() []Endpoint {
	return append([]Endpoint{
		{Method: "GET", Path: "/status", Help: "this page as JSON", Handler: answer(http.StatusOK, func(*http.Request) (any, error) { return s.Status(), nil })},
		{Method: "GET", Path: "/stats", Help: "the metrics", Handler: s.Metrics.ServeHTTP},
		{Method: "GET", Path: "/rlconfig", Class: Values, Help: "the rules in use", Handler: NewPage(http.HandlerFunc(s.rules), func() time.Time { return s.Status().Rules.LoadedAt }).ServeHTTP},
		{Method: "GET", Path: "/denials", Class: Values, Help: "recent denials, of all servers with ?servers=all", Handler: s.denials},
		{Method: "GET", Path: "/budgets", Class: Values, Help: "the most used budgets, as all servers know them with ?servers=all", Handler: ofAll(s.Budgets)},
		{Method: "POST", Path: "/peek", Class: Values, Help: "the counters and denials of a descriptor", Handler: posted(http.StatusOK, func(r *http.Request, d plan.JSONDescriptor) (any, error) {
			return s.Look(r.Context(), d, r.URL.Query().Get("servers") == "all")
		})},
		{Method: "POST", Path: "/reset", Class: Changes, Help: "set the counters of a descriptor to zero", Handler: posted(http.StatusOK, func(r *http.Request, d plan.JSONDescriptor) (any, error) {
			return s.Reset(r.Context(), d, r.URL.Query().Get("by"), VisitorOf(r).Peer)
		})},
		{Method: "GET", Path: "/exceptions", Class: Values, Help: "the exceptions in force", Handler: ofAll(s.Exceptions)},
		{Method: "POST", Path: "/exceptions", Class: Changes, Help: "add an exception", Handler: posted(http.StatusCreated, func(r *http.Request, e plan.Exception) (any, error) {
			if e.ID+e.Note != "" || !e.Created.IsZero() || !e.Until.IsZero() || e.Used != nil {
				return nil, operators.Errorf(operators.ErrBadRequest, "invalid body: only answers have id, created, until, used and note")
			}
			return s.AddException(r.Context(), e, VisitorOf(r).Peer)
		})},
		{Method: "DELETE", Path: "/exceptions/{id}", Class: Changes, Help: "remove an exception", Handler: answer(http.StatusNoContent, func(r *http.Request) (any, error) {
			return nil, s.InForce.Remove(r.Context(), r.PathValue("id"), r.URL.Query().Get("by"), VisitorOf(r).Peer)
		})},
		{Method: "GET", Path: "/assigned", Class: Values, Help: "assigned amounts, by ?domain, ?prefix and ?n", Handler: answer(http.StatusOK, func(r *http.Request) (any, error) {
			query := r.URL.Query()
			n, err := strconv.ParseUint(cmp.Or(query.Get("n"), "1000"), 10, 24)
			if err != nil {
				return nil, operators.Errorf(operators.ErrBadRequest, "n: %.40q is not a number; use 0 to 16777215", query.Get("n"))
			}
			return s.Assigned(query.Get("domain"), query.Get("prefix"), int(n)), nil
		})},
		{Method: "PUT", Path: "/assigned", Class: Changes, MaxBody: bulkBytes, Help: "assign amounts: lines of JSON, or CSV", Handler: s.assign(operators.How{})},
		{Method: "POST", Path: "/assigned", Class: Changes, MaxBody: bulkBytes, Help: "add to assigned amounts", Handler: s.assign(operators.How{Add: true})},
		{Method: "DELETE", Path: "/assigned", Class: Changes, MaxBody: bulkBytes, Help: "remove assigned amounts", Handler: s.assign(operators.How{Remove: true})},
		{Method: "POST", Path: "/-/reload", Class: Changes, Help: "reload the rules", Handler: s.reload()},
		{Path: "/debug/pprof/", Class: Values, Help: "profiles", Handler: profiles()},
	}, s.Console...)
}

// Handler serves the endpoints, and at / the status page with a list of them.
func (s *Server) Handler() http.Handler {
	mux, list := http.NewServeMux(), ""
	for _, e := range s.endpoints() {
		mux.Handle(strings.TrimSpace(e.Method+" "+e.Path), http.MaxBytesHandler(s.Access.guard(e), cmp.Or(e.MaxBody, bodyBytes)))
		if e.Help != "" {
			list += fmt.Sprintf("%-6s %-16s %s%s\n", cmp.Or(e.Method, http.MethodGet), e.Path, e.Help, s.Access.whom(e.Class))
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") { // a browser
			http.Redirect(w, r, "/console/", http.StatusSeeOther)
			return
		}
		plain(w)
		status := s.Status()
		fmt.Fprint(w, status.Text(operators.Times{Now: time.Now().UTC()}), "\n", list)
	})
	return s.Access.sites.Handler(mux)
}

// whom returns a note about who may use a class of endpoints.
func (a *Access) whom(c Class) string {
	switch {
	case c == Open:
		return ""
	case a.Token == nil:
		return " (from this machine)"
	case c == Changes:
		return " (with the token)"
	default:
		return " (with the token, or from this machine)"
	}
}

func (s *Server) rules(w http.ResponseWriter, _ *http.Request) {
	plain(w)
	if err := s.Dump(w); err != nil {
		fail(w, err, plaintext.Lines)
	}
}

func (s *Server) reload() http.HandlerFunc {
	audit := rate.Sometimes{Interval: time.Second}
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a load may take a long time; a recorder in a test has no deadline
		audit.Do(func() { s.Logger.Info("the rules are loaded on request", "audit", true, "peer", VisitorOf(r).Peer) })
		if err := s.Reload(); err != nil {
			fail(w, err, plaintext.Lines)
			return
		}
		plain(w)
		fmt.Fprintln(w, "rules loaded")
	}
}

// assign returns a handler that makes the changes in the lines of a body, which may have a million lines.
func (s *Server) assign(how operators.How) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		patient := http.NewResponseController(w)
		_, _ = patient.SetReadDeadline(time.Time{}), patient.SetWriteDeadline(time.Time{}) // a recorder in a test has no deadlines
		answer(http.StatusOK, func(r *http.Request) (any, error) {
			how, query := how, r.URL.Query()
			how.CSV = strings.HasPrefix(r.Header.Get("Content-Type"), "text/csv")
			how.Prune, how.Yes = query.Get("prune") == "true", query.Get("yes") == "true"
			how.By, how.Peer = query.Get("by"), VisitorOf(r).Peer
			if how.Prune && (how.Add || how.Remove) {
				return nil, operators.Errorf(operators.ErrBadRequest, "prune is allowed with PUT only")
			}
			done, err := s.Assign(r.Context(), r.Body, how)
			if err != nil {
				err = fmt.Errorf("%w; until then %d were added, %d changed and %d removed", err, done.Added, done.Changed, done.Removed)
			}
			return done, err
		})(w, r)
	}
}

// profiles serves /debug/pprof/.
func profiles() http.HandlerFunc {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index) // pprof.Cmdline is left out, because flags may contain a password
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux.ServeHTTP
}

// Maximum sizes of a request's body. bulkBytes applies to lists of assigned amounts.
const bodyBytes, bulkBytes = 64 << 10, 1 << 30

// answer returns a handler that sends the status code, with the result of ask as JSON unless the
// result is nil. If ask fails, the handler sends the error.
func answer(code int, ask func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := ask(r)
		var text []byte
		if err == nil && v != nil {
			text, err = json.MarshalIndent(v, "", "  ")
		}
		switch {
		case err != nil:
			fail(w, err, plaintext.Line)
		case v == nil:
			w.WriteHeader(code)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write(append(plaintext.JSON(text), '\n')) // if it fails, the client has gone
		}
	}
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
}

// fail answers with the text of an error, made safe by shown, and the status of its Kind, or 500 without one.
func fail(w http.ResponseWriter, err error, shown func(string) string) {
	code := operators.Kind(http.StatusInternalServerError)
	if body, large := errors.AsType[*http.MaxBytesError](err); large {
		code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", body.Limit)
	}
	_ = errors.As(err, &code)
	if code == operators.ErrUnavailable {
		w.Header().Set("Retry-After", "1") // a guess, because the end of the outage is unknown
	}
	http.Error(w, shown(err.Error()), int(code))
}

// denials answers with recent denials. It adds a note if no rule has the domain of the query, or
// a key of its descriptor.
func (s *Server) denials(w http.ResponseWriter, r *http.Request) {
	ofAll(func(ctx context.Context, all bool) (operators.Denials, error) {
		d, err := s.Denials(ctx, all)
		if query := r.URL.Query(); query.Get("domain") != "" {
			entries, _ := explain.ParseDescriptor(query.Get("descriptor")) // an invalid descriptor gets no note
			d.Note = explain.Doubt(s.Tree(), query.Get("domain"), entries)
		}
		return d, err
	})(w, r)
}

// ofAll returns a handler that asks this server or, with ?servers=all, all servers on the same Redis.
func ofAll[T any](ask func(ctx context.Context, all bool) (T, error)) http.HandlerFunc {
	return answer(http.StatusOK, func(r *http.Request) (any, error) {
		servers := r.URL.Query().Get("servers")
		if servers != "" && servers != "this" && servers != "all" {
			return nil, operators.Errorf(operators.ErrBadRequest, "servers: %.40q is unknown; use this or all", servers)
		}
		return ask(r.Context(), servers == "all")
	})
}

// posted returns a handler that decodes the body of a request for ask. It refuses fields that T does not
// have, and invalid UTF-8, which the decoder would replace.
func posted[T any](code int, ask func(*http.Request, T) (any, error)) http.HandlerFunc {
	return answer(code, func(r *http.Request) (any, error) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var asked T
		if err := operators.ReadJSON(text, &asked); err != nil {
			return nil, operators.Errorf(operators.ErrBadRequest, "invalid body: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		if !utf8.Valid(text) {
			return nil, operators.Errorf(operators.ErrBadRequest, "the body is not UTF-8, put other bytes in the fields that end in _base64")
		}
		return ask(r, asked)
	})
}
