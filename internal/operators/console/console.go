// Package console is the part of the debug port that people look at with a browser:
// pages about who is limited and why, and forms to do something about it.
//
//	console.go  New: the endpoints, and what all pages have in common
//	pages.go    the data of the pages Now, with its curves and figures, Exceptions and Explain;
//	            their forms
//	rules.go    the busiest rules, as a tree; what changed in the last ten seconds
//
// The pages work without JavaScript; with it, their panels are replaced every two seconds.
// The package decides nothing, and asks an api.Server for what it shows and changes.
package console

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/operators/api"
	"weir/internal/telemetry"
)

// Options are what the console shows beside what the debug port answers otherwise. All must
// be set and safe for concurrent use.
type Options struct {
	History      func() []api.Rates                          // of the last fifteen minutes, the oldest first
	Loads        func() []Load                               // the last ones, the newest first
	Outcomes     func() map[limiter.Series]telemetry.Outcome // of the requests to each limit since the start
	StoreMetrics prometheus.Gatherer
	Failure      limiter.FailureMode // of limits that have none of their own
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

// layout is what all pages share; a page adds its title, forms and panels.
var layout = template.Must(template.New("layout.html").Funcs(api.Words).Funcs(words).ParseFS(files, "pages/layout.html", "pages/parts.html"))

// pages are the templates of the pages, by name.
var pages = func() map[string]*template.Template {
	parsed := map[string]*template.Template{}
	for _, name := range []string{"now", "rules", "exceptions", "explain", "signin"} {
		parsed[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "pages/"+name+".html"))
	}
	return parsed
}()

// console asks a server for what its pages show.
type console struct {
	*api.Server
	Options
	outcomes lately[map[limiter.Series]telemetry.Outcome]
	store    lately[map[string]float64] // by name
}

// New returns the endpoints of the console of a server.
func New(server *api.Server, o Options) []api.Endpoint {
	c := &console{Server: server, Options: o}
	c.outcomes.take, c.store.take = o.Outcomes, c.storeMetrics
	assets, _ := fs.Sub(files, "assets") // which is there; all may read them, and nothing beside them
	signIn := func(w http.ResponseWriter, _ *http.Request) { show(w, http.StatusUnauthorized, view{Name: "signin"}) }
	page := func(path, name string, data func(*http.Request) (any, error)) api.Endpoint {
		return api.Endpoint{Method: "GET", Path: path, Class: api.Values, SignIn: signIn, Handler: func(w http.ResponseWriter, r *http.Request) {
			c.show(w, r, name, data, nil)
		}}
	}
	form := func(path, name string, data func(*http.Request) (any, error), do func(*http.Request) (url.Values, error)) api.Endpoint {
		return api.Endpoint{Method: "POST", Path: path, Class: api.Changes, SignIn: signIn, Handler: func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm() // what cannot be read is missing
			done, err := do(r)
			if err != nil {
				c.show(w, r, name, data, err) // with the form as it was
				return
			}
			http.Redirect(w, r, "/console/"+name+"?"+done.Encode(), http.StatusSeeOther)
		}}
	}
	return []api.Endpoint{
		{Method: "GET", Path: "/console", Class: api.Values, Help: "the console, for browsers", Handler: home, SignIn: signIn},
		page("/console/{$}", "now", c.now),
		page("/console/rules", "rules", c.rules),
		page("/console/exceptions", "exceptions", c.exceptions),
		page("/console/explain", "explain", c.explain),
		form("/console/exceptions", "exceptions", c.exceptions, c.addException),
		form("/console/exceptions/remove", "exceptions", c.exceptions, c.removeException),
		form("/console/reset", "explain", c.explain, c.reset),
		{Method: "GET", Path: "/console/assets/", Handler: http.StripPrefix("/console/assets/", http.FileServerFS(assets)).ServeHTTP},
		{Method: "GET", Path: "/console/signin", Handler: func(w http.ResponseWriter, _ *http.Request) { show(w, http.StatusOK, view{Name: "signin"}) }},
		{Method: "POST", Path: "/console/signin", Handler: func(w http.ResponseWriter, r *http.Request) {
			if !c.Access.SignIn(w, r) {
				show(w, http.StatusUnauthorized, view{Name: "signin", Problem: "The token is missing or invalid."})
				return
			}
			home(w, r)
		}},
		{Method: "POST", Path: "/console/signout", Handler: func(w http.ResponseWriter, r *http.Request) {
			c.Access.SignOut(w, r)
			home(w, r)
		}},
	}
}

// home leads to the page Now.
func home(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/console/", http.StatusSeeOther)
}

// view is what a page shows.
type view struct {
	Name    string
	Visitor api.Visitor
	Done    string // what the last form has done
	Problem string // why it has done nothing
	Status  api.Status
	Data    any
	part    string // of the page, "" for all
}

// show writes a page with its data, and with why a form was refused, if it was, or its panels
// alone if the script asks for them.
func (c *console) show(w http.ResponseWriter, r *http.Request, name string, data func(*http.Request) (any, error), refused error) {
	_ = r.ParseForm() // what cannot be read is missing
	v, code := view{Name: name, Visitor: api.VisitorOf(r), Done: r.Form.Get("done"), Status: c.Status()}, http.StatusOK
	var problem error
	v.Data, problem = data(r)
	if refused = cmp.Or(problem, refused); refused != nil {
		v.Problem, code = refused.Error(), http.StatusUnprocessableEntity
	} else if r.Form.Get("part") == "panels" {
		v.part = "panels"
	}
	show(w, code, v)
}

// policy lets pages load what this server has, and run no other script than that.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// show writes a page.
func show(w http.ResponseWriter, code int, v view) {
	var b bytes.Buffer // so that a page is whole, or an error
	if err := pages[v.Name].ExecuteTemplate(&b, cmp.Or(v.part, "layout.html"), v); err != nil {
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms say that they are of no origin
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // if it fails, the client has gone
}
