// Package console is the part of the debug port that people look at with a browser:
// pages about who is limited and why, and forms to do something about it.
//
//	console.go     Console: the routes, and what every answer has in common
//	pages.go       the data of each page
//	forms.go       what forms ask for
//	chart.go       the curves of the last minutes
//	tree.go        rules -> a tree of them
//	descriptor.go  descriptors as text, in forms and links
//
// The pages work without JavaScript; with it, their panels are replaced every two seconds.
// The package decides nothing, keeps nothing, and asks a Server for all that it shows.
package console

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"weir/internal/limiter"
	"weir/internal/offline/explain"
	"weir/internal/operators/api"
	"weir/internal/operators/denials"
)

// Server is what the console shows and changes. All functions must be set and safe for
// concurrent use.
type Server struct {
	Status func() api.Status
	// History returns the rates of the last fifteen minutes, the oldest first.
	History func() []api.Rates
	// Denials returns what was denied lately, here or on all servers that can be asked,
	// and on how many that is.
	Denials func(ctx context.Context, all bool) (denials.Summary, int, error)
	// Rules returns the busiest of the rules whose text contains filter.
	Rules func(filter string) Rules
	// Store returns how the store of the counters does.
	Store func() []Figure
	// Loads returns what became of the last loads of the rules, the newest first.
	Loads func() []Load
	// Explain returns an error if there are no rules, or the descriptor would be refused.
	Explain func(d api.Descriptor) (explain.Answer, error)
	// Peek returns the counters of a descriptor, and Reset sets them to zero. by is who asks
	// for that, and peer where the request comes from.
	Peek            func(ctx context.Context, d api.Descriptor) (api.Counters, error)
	Reset           func(ctx context.Context, d api.Descriptor, by, peer string) (api.Counters, error)
	Exceptions      func(ctx context.Context, all bool) (api.Exceptions, error)
	AddException    func(ctx context.Context, e api.NewException, peer string) (api.Exception, error)
	RemoveException func(ctx context.Context, id, by, peer string) error
}

// Access says who may see what, and change anything.
type Access interface {
	// Values serves next to who may see values of requests.
	Values(next http.Handler) http.Handler
	// Changes serves next to who may change anything, and refuses requests of other sites.
	Changes(next http.Handler) http.Handler
	// SignedIn reports whether a request is of somebody who signed in.
	SignedIn(r *http.Request) bool
	// NeedsSignIn reports whether Values would refuse a request until its sender signs in.
	NeedsSignIn(r *http.Request) bool
	// MayChange reports whether Changes would serve a request. If it would not, but Values
	// does, signing in helps.
	MayChange(r *http.Request) bool
	// Peer returns where a request comes from, for the audit log.
	Peer(r *http.Request) string
}

// Rules are rules that serve.
type Rules struct {
	Rules []Rule // MaxRules at most, the order of the files
	// Matching is how many rules contain the filter, of All.
	Matching, All int
	// Over is the time that the rates are of, 0 if that has just begun.
	Over time.Duration
}

// MaxRules bounds the rules of a page.
const MaxRules = 200

// Rule is a rule with its rates.
type Rule struct {
	Words  []string // the domain, and the keys and values that lead to it
	Domain string
	// Entries is a descriptor that leads to it, without the values that can be any.
	Entries []limiter.Entry
	Place   string
	Limits  []Limit
	Rate
}

// Rate is how many units a second were asked for, and how many of those were over.
type Rate struct{ Asked, Over float64 }

// Limit is a limit with its rates.
type Limit struct {
	Name   string // or how it counts
	Amount string // such as "5 per minute"
	Mode   string // "" if it is enforced
	Rate
}

// Figure is a fact about the store.
type Figure struct{ Name, Value string }

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

// Console serves /console/ and what is below it, but for POST /console/signin and
// /console/signout.
type Console struct {
	server Server
	access Access
	mux    http.ServeMux
}

// New returns a console.
func New(server Server, access Access) *Console {
	c := &Console{server: server, access: access}
	assets, _ := fs.Sub(files, "assets") // which is there
	c.mux.Handle("GET /console/assets/", http.StripPrefix("/console/assets/", http.FileServerFS(assets)))
	c.mux.Handle("GET /console", http.RedirectHandler("/console/", http.StatusSeeOther))
	c.mux.HandleFunc("GET /console/signin", func(w http.ResponseWriter, r *http.Request) {
		c.SignIn(w, r, http.StatusOK, "")
	})
	c.mux.Handle("GET /console/{$}", c.values(c.now))
	c.mux.Handle("GET /console/rules", c.values(c.rules))
	c.mux.Handle("GET /console/exceptions", c.values(c.exceptions))
	c.mux.Handle("GET /console/explain", c.values(c.explain))
	c.mux.Handle("POST /console/exceptions", c.changes(c.addException))
	c.mux.Handle("POST /console/exceptions/remove", c.changes(c.removeException))
	c.mux.Handle("POST /console/reset", c.changes(c.reset))
	return c
}

// policy lets pages load what this server has, and run no other script than that.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w)
	c.mux.ServeHTTP(w, r)
}

func secure(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms say that they are of no origin
	h.Set("Cache-Control", "no-store")
}

// SignIn writes the page to sign in, with why that was refused, if it was.
func (c *Console) SignIn(w http.ResponseWriter, r *http.Request, code int, refused string) {
	secure(w)
	p := c.page(r, "Sign in")
	p.Problem = refused
	execute(w, code, "signin", "layout.html", p)
}

// values serves a page to who may see values of requests, and asks others to sign in.
func (c *Console) values(page http.HandlerFunc) http.Handler {
	allowed := c.access.Values(page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.access.NeedsSignIn(r) {
			c.SignIn(w, r, http.StatusUnauthorized, "")
			return
		}
		allowed.ServeHTTP(w, r)
	})
}

// changes serves a form, whose bytes the listener bounds, to who may change anything.
func (c *Console) changes(form http.HandlerFunc) http.Handler {
	return c.access.Changes(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form is too large or no form", http.StatusBadRequest)
			return
		}
		form(w, r)
	}))
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

func (c *Console) page(r *http.Request, title string) page {
	p := page{Title: title, Anonymous: c.access.NeedsSignIn(r)}
	p.SignedIn, p.MayChange = c.access.SignedIn(r), c.access.MayChange(r)
	p.Done = outcomes[r.URL.Query().Get("done")]
	return p
}

// write writes a page, with why a form was refused, if it was, or its panels alone if the
// script asks for them.
func (c *Console) write(w http.ResponseWriter, r *http.Request, name string, p page, refused error) {
	p.Status = c.server.Status()
	code, part := http.StatusOK, "layout.html"
	if refused != nil {
		p.Problem, code = refused.Error(), http.StatusUnprocessableEntity
	} else if r.URL.Query().Get("part") == "panels" {
		part = "panels"
	}
	execute(w, code, name, part, p)
}

// execute writes a part of a page.
func execute(w http.ResponseWriter, code int, name, part string, p page) {
	var b bytes.Buffer // so that a page is whole, or an error
	if err := pages[name].ExecuteTemplate(&b, part, p); err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // if it fails, the client has gone
}
