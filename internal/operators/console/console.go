// Package console is the part of the debug port that people look at with a browser:
// pages about who is limited and why, and forms to do something about it.
//
//	console.go     Console: the routes, and what every answer has in common
//	pages.go       the data of each page
//	rules.go       the busiest rules, as a tree
//	forms.go       what forms ask for
//	lately.go      what changed in the last ten seconds, of rules and store
//	chart.go       the curves of the last minutes
//	descriptor.go  descriptors as text, in forms and links
//
// The pages work without JavaScript; with it, their panels are replaced every two seconds.
// The package decides nothing, and asks an api.Server for what it shows and changes.
package console

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/operators/api"
	"weir/internal/telemetry"
)

// Options are what the console shows beside what the debug port answers otherwise. All must
// be set and safe for concurrent use.
type Options struct {
	// History returns the rates of the last fifteen minutes, the oldest first.
	History func() []api.Rates
	// Loads returns what became of the last loads of the rules, the newest first.
	Loads func() []Load
	// Outcomes returns what became of the requests to each limit since the start.
	Outcomes func() map[limiter.Series]telemetry.Outcome
	// StoreMetrics are those of the store, which in memory keeps MaxCounters at most.
	StoreMetrics prometheus.Gatherer
	MaxCounters  int
	// Failure is the mode of limits that have none of their own.
	Failure limiter.FailureMode
}

// Load is what became of a load of the rules.
type Load struct {
	At       time.Time // of the last one, if there were several alike
	Times    int       // how often in a row it had this outcome
	Rules    int       // that serve since then, if it succeeded
	Version  string    // of a control plane
	Problems string    // one per line, "" if it succeeded
}

//go:embed assets pages
var files embed.FS

// pages are the templates of the pages, by name.
var pages = parse("now", "rules", "exceptions", "explain", "signin")

func parse(names ...string) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(words).ParseFS(files, "pages/layout.html", "pages/parts.html"))
	parsed := make(map[string]*template.Template, len(names))
	for _, name := range names {
		parsed[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "pages/"+name+".html"))
	}
	return parsed
}

// Console serves /console/ and what is below it.
type Console struct {
	*api.Server
	Options
	outcomes lately[map[limiter.Series]telemetry.Outcome]
	store    lately[map[string]float64] // by name
	mux      http.ServeMux
}

// New returns the console of a server.
func New(server *api.Server, o Options) *Console {
	c := &Console{Server: server, Options: o}
	c.outcomes.take, c.store.take = o.Outcomes, c.storeMetrics
	assets, _ := fs.Sub(files, "assets") // which is there
	c.mux.Handle("GET /console/assets/", http.StripPrefix("/console/assets/", http.FileServerFS(assets)))
	c.mux.Handle("GET /console", http.RedirectHandler("/console/", http.StatusSeeOther))
	c.mux.HandleFunc("GET /console/signin", func(w http.ResponseWriter, r *http.Request) { signInPage(w, r, http.StatusOK, "") })
	c.mux.HandleFunc("POST /console/signin", func(w http.ResponseWriter, r *http.Request) {
		if code, reason := c.Access.SignIn(w, r); reason != "" {
			signInPage(w, r, code, reason)
			return
		}
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
	})
	c.mux.HandleFunc("POST /console/signout", func(w http.ResponseWriter, r *http.Request) {
		if code, reason := c.Access.SignOut(w, r); reason != "" {
			http.Error(w, reason, code)
			return
		}
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
	})
	c.mux.Handle("GET /console/{$}", values(c.now))
	c.mux.Handle("GET /console/rules", values(func(w http.ResponseWriter, r *http.Request) {
		c.show(w, r, "rules", "Rules", c.busiest(r.URL.Query().Get("filter")), nil)
	}))
	c.mux.Handle("GET /console/exceptions", values(func(w http.ResponseWriter, r *http.Request) {
		c.showExceptions(w, r, fillIn(r.URL.Query()), nil)
	}))
	c.mux.Handle("GET /console/explain", values(func(w http.ResponseWriter, r *http.Request) {
		c.showExplain(w, r, ask(r.URL.Query()), nil)
	}))
	c.mux.Handle("POST /console/exceptions", changes(c.addException))
	c.mux.Handle("POST /console/exceptions/remove", changes(c.removeException))
	c.mux.Handle("POST /console/reset", changes(c.reset))
	return c
}

// policy lets pages load what this server has, and run no other script than that.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms say that they are of no origin
	h.Set("Cache-Control", "no-store")
	c.mux.ServeHTTP(w, r)
}

// values serves a page to who may see values of requests, and asks others to sign in.
func values(page http.HandlerFunc) http.Handler {
	allowed := api.Values(page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.VisitorOf(r).NeedsToSignIn() {
			signInPage(w, r, http.StatusUnauthorized, "")
			return
		}
		allowed(w, r)
	})
}

// changes serves a form, whose bytes the listener bounds, to who may change anything.
func changes(form http.HandlerFunc) http.Handler {
	return api.Changes(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form is too large or invalid", http.StatusBadRequest)
			return
		}
		form(w, r)
	})
}

// signInPage writes the page to sign in, with why that was refused, if it was.
func signInPage(w http.ResponseWriter, r *http.Request, code int, refused string) {
	p := newPage(r, "Sign in", nil)
	p.Problem = refused
	p.write(w, code, "signin", "layout.html")
}

// page is what every page shows.
type page struct {
	Title               string
	SignedIn, MayChange bool
	Anonymous           bool   // nothing but signing in is possible
	Done                string // what the last form has done
	Problem             string // why it has done nothing
	Status              api.Status
	Data                any
}

func newPage(r *http.Request, title string, data any) page {
	v := api.VisitorOf(r)
	return page{
		Title: title, SignedIn: v.SignedIn, MayChange: v.MayChange(), Anonymous: v.NeedsToSignIn(),
		Done: outcomes[r.URL.Query().Get("done")], Data: data,
	}
}

// show writes a page, with why a form was refused, if it was, or its panels alone if the
// script asks for them.
func (c *Console) show(w http.ResponseWriter, r *http.Request, name, title string, data any, refused error) {
	p := newPage(r, title, data)
	p.Status = c.Status()
	code, part := http.StatusOK, "layout.html"
	if refused != nil {
		p.Problem, code = refused.Error(), http.StatusUnprocessableEntity
	} else if r.URL.Query().Get("part") == "panels" {
		part = "panels"
	}
	p.write(w, code, name, part)
}

// write writes a part of a page.
func (p page) write(w http.ResponseWriter, code int, name, part string) {
	var b bytes.Buffer // so that a page is whole, or an error
	if err := pages[name].ExecuteTemplate(&b, part, p); err != nil {
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // if it fails, the client has gone
}
