// Package console is the part of the debug port for browsers: pages that show who is limited
// and why, with forms to make changes.
//
//	console.go     New: the endpoints, and the common parts of all pages
//	pages.go       the data of the pages Now and Exceptions, and all forms
//	descriptor.go  the search, and the page of a descriptor
//	rules.go       the page Rules: the busiest rules as a tree, with rates of the last ten seconds
//
// The pages work without JavaScript; a script replaces their panels every two seconds. The package
// decides nothing; an api.Server does all work.
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

// Options are the sources of data besides the api.Server. All fields must be set and safe for concurrent use.
type Options struct {
	History      func() []api.Rates                          // rates of the last fifteen minutes, the oldest first
	Loads        func() []Load                               // the last loads, the newest first
	Outcomes     func() map[limiter.Series]telemetry.Outcome // outcomes of each limit since the start
	StoreMetrics prometheus.Gatherer
}

// Load is the outcome of a load of the rules.
type Load struct {
	At       time.Time // time of the last load with this outcome
	Times    int       // number of consecutive loads with this outcome
	Rules    int       // number of rules in use since then, if the load succeeded
	Version  string    // version of a control plane's resources
	Problems string    // one per line, or empty if the load succeeded
}

//go:embed assets pages
var files embed.FS

// layout is the common template of all pages, to which each page adds its title, forms and panels.
var layout = template.Must(template.New("layout.html").Funcs(api.Words).Funcs(words).ParseFS(files, "pages/layout.html", "pages/parts.html"))

// pages has the template of each page by name.
var pages = func() map[string]*template.Template {
	parsed := map[string]*template.Template{}
	for _, name := range []string{"now", "rules", "budgets", "exceptions", "descriptor", "servers", "at-3am", "signin"} {
		parsed[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "pages/"+name+".html"))
	}
	return parsed
}()

// console renders pages with the data of a server.
type console struct {
	*api.Server
	Options
	outcomes sampler[map[limiter.Series]telemetry.Outcome]
	store    sampler[map[string]map[string]float64]
}

// New returns the endpoints of the console of server.
func New(server *api.Server, o Options) []api.Endpoint {
	c := &console{Server: server, Options: o}
	c.outcomes.take, c.store.take = o.Outcomes, c.storeMetrics
	assets, _ := fs.Sub(files, "assets") // cannot fail; serves nothing outside the folder
	signIn := func(w http.ResponseWriter, _ *http.Request) { show(w, http.StatusUnauthorized, view{Name: "signin"}) }
	page := func(path, name string, data func(*http.Request) (any, error)) api.Endpoint {
		return api.Endpoint{Method: "GET", Path: path, Class: api.Values, SignIn: signIn, Handler: func(w http.ResponseWriter, r *http.Request) {
			c.show(w, r, name, data, nil)
		}}
	}
	form := func(path, name string, data func(*http.Request) (any, error), do func(*http.Request) (done string, err error)) api.Endpoint {
		return api.Endpoint{Method: "POST", Path: path, Class: api.Changes, SignIn: signIn, Handler: func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm() // invalid parts are missing
			done, err := do(r)
			if err != nil {
				c.show(w, r, name, data, err) // with the sent form
				return
			}
			query := url.Values{"done": {done}}
			if name == "descriptor" { // stay on the page of the descriptor
				query["domain"], query["descriptor"] = r.PostForm["domain"], r.PostForm["descriptor"]
			}
			http.Redirect(w, r, "/console/"+name+"?"+query.Encode(), http.StatusSeeOther)
		}}
	}
	return []api.Endpoint{
		{Method: "GET", Path: "/console", Class: api.Values, Help: "the console, for browsers", Handler: home, SignIn: signIn},
		page("/console/{$}", "now", c.now),
		page("/console/rules", "rules", c.rules),
		page("/console/budgets", "budgets", c.budgets),
		page("/console/exceptions", "exceptions", c.exceptions),
		page("/console/descriptor", "descriptor", c.descriptor),
		page("/console/servers", "servers", noData),
		page("/console/at-3am", "at-3am", noData),
		form("/console/exceptions", "exceptions", c.exceptions, c.addException),
		form("/console/exceptions/remove", "exceptions", c.exceptions, c.removeException),
		form("/console/descriptor", "descriptor", c.descriptor, c.addException),
		form("/console/reset", "descriptor", c.descriptor, c.reset),
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

// noData is the data of a page that shows only the status.
func noData(*http.Request) (any, error) { return nil, nil }

// home redirects to the page Now.
func home(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/console/", http.StatusSeeOther)
}

// view is the data of a page's template.
type view struct {
	Name    string
	Visitor api.Visitor
	Done    string // names the change that the last form made
	Problem string // reason why the form or the page failed
	Status  api.Status
	Search  search
	Data    any
	part    string // template to render, or "" for the page
}

// show writes the page with this name. The parameter refused is why a form was refused, or nil. If
// the page's script sent the request, show writes only the panels.
func (c *console) show(w http.ResponseWriter, r *http.Request, name string, data func(*http.Request) (any, error), refused error) {
	_ = r.ParseForm() // invalid parts are missing
	v, code := view{Name: name, Visitor: api.VisitorOf(r), Done: r.Form.Get("done"), Status: c.Status()}, http.StatusOK
	var problem error
	v.Data, problem = data(r)
	if refused = cmp.Or(problem, refused); refused != nil {
		v.Problem, code = refused.Error(), http.StatusUnprocessableEntity
	} else if r.Form.Get("part") == "panels" {
		v.part = "refresh"
	}
	if v.part == "" {
		v.Search = c.search(r)
	}
	show(w, code, v)
}

// policy restricts pages to files and scripts of this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// show writes a page.
func show(w http.ResponseWriter, code int, v view) {
	var b bytes.Buffer // so that no part of a page is sent before an error
	if err := pages[v.Name].ExecuteTemplate(&b, cmp.Or(v.part, "layout.html"), v); err != nil {
		http.Error(w, "the page cannot be rendered", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // no-referrer makes browsers send forms with the origin null
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // if it fails, the client has gone
}
