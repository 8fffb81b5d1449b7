package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"weir/internal/adminapi"
	"weir/internal/denials"
	"weir/internal/explain"
	"weir/internal/plaintext"
)

// How many lines the tables have at most.
const (
	maxKeys = 25
	maxLast = 50
)

// nowPage is the page of what happens now.
type nowPage struct {
	Chart      chart
	Hour, All  bool // what the address asks for
	Servers    int
	From       time.Time
	Keys       []deniedKey
	MoreKeys   int // that are known, and not in Keys
	OthersMost uint64
	Last       []deniedEvent
	Problem    string // why nothing is known of denials
	Store      []Figure
	Loads      []Load
	Exceptions exceptionList
}

// deniedKey is a key that was denied often.
type deniedKey struct {
	denials.Source
	denials.Key
	Shown shown
}

// deniedEvent is one denial.
type deniedEvent struct {
	denials.Event
	Shown shown
}

func (c *Console) now(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	data := nowPage{
		Chart: draw(c.server.History(), time.Now()), Store: c.server.Store(), Loads: c.server.Loads(),
		Hour: query.Get("window") == "hour", All: query.Get("servers") == "all",
	}
	summary, servers, err := c.server.Denials(r.Context(), data.All)
	if err != nil {
		data.Problem = err.Error()
	}
	data.Servers = servers
	data.addKeys(summary)
	for _, e := range summary.Last[:min(len(summary.Last), maxLast)] {
		data.Last = append(data.Last, deniedEvent{e, showExcerpt(e.Domain, e.Descriptor)})
	}
	p := c.page(r, "Now")
	data.Exceptions = c.listExceptions(r, p.MayChange, data.All)
	p.Data = data
	c.write(w, r, http.StatusOK, "now", p)
}

// addKeys adds the keys of all limits that were denied most.
func (n *nowPage) addKeys(summary denials.Summary) {
	window := summary.Minute
	if n.Hour {
		window = summary.Hour
	}
	n.From, n.OthersMost = window.From, window.OthersAtMost
	for _, l := range window.Limits {
		n.OthersMost = max(n.OthersMost, l.OthersAtMost)
		for _, k := range l.Keys {
			n.Keys = append(n.Keys, deniedKey{l.Source, k, showExcerpt(l.Domain, k.Descriptor)})
		}
	}
	slices.SortStableFunc(n.Keys, func(a, b deniedKey) int { return cmp.Compare(b.Denied, a.Denied) })
	if n.MoreKeys = len(n.Keys) - maxKeys; n.MoreKeys > 0 {
		n.OthersMost = max(n.OthersMost, n.Keys[maxKeys].Denied)
		n.Keys = n.Keys[:maxKeys]
	}
}

// Link returns the address of the page with another window or other servers.
func (n nowPage) Link(hour, all bool) string {
	query := url.Values{}
	if hour {
		query.Set("window", "hour")
	}
	if all {
		query.Set("servers", "all")
	}
	return "/console/?" + query.Encode()
}

// rulesPage is the page of the rules.
type rulesPage struct {
	Rules
	Filter string
	Tree   []*branch
}

func (c *Console) rules(w http.ResponseWriter, r *http.Request) {
	data := rulesPage{Filter: r.URL.Query().Get("filter")}
	data.Rules = c.server.Rules(data.Filter)
	data.Tree = growTree(data.Rules)
	p := c.page(r, "Rules")
	p.Data = data
	c.write(w, r, http.StatusOK, "rules", p)
}

// exceptionsPage is the page of the exceptions.
type exceptionsPage struct {
	List exceptionList
	Form exceptionForm
}

// exceptionList is a table of exceptions.
type exceptionList struct {
	List      []shownException
	Left      int    // that are not in List
	Problem   string // why there is no list
	Servers   int    // that their uses are of
	MayChange bool
}

type shownException struct {
	adminapi.Exception
	Shown shown
}

// maxExceptions is how many exceptions a page lists.
const maxExceptions = 500

func (c *Console) listExceptions(r *http.Request, mayChange, all bool) exceptionList {
	known, err := c.server.Exceptions(r.Context(), all)
	list := exceptionList{MayChange: mayChange, Servers: known.Servers}
	if err != nil {
		list.Problem = err.Error()
	}
	for _, e := range known.Exceptions {
		if len(list.List) == maxExceptions {
			list.Left = len(known.Exceptions) - maxExceptions
			break
		}
		list.List = append(list.List, shownException{e, showWire(e.Descriptor)})
	}
	return list
}

func (c *Console) exceptions(w http.ResponseWriter, r *http.Request) {
	c.showExceptions(w, r, fillIn(r.URL.Query()), nil)
}

// showExceptions writes the page with a form, and with why that was refused, if it was.
func (c *Console) showExceptions(w http.ResponseWriter, r *http.Request, form exceptionForm, refused error) {
	p := c.page(r, "Exceptions")
	p.Path = "/console/exceptions"
	p.Data = exceptionsPage{List: c.listExceptions(r, p.MayChange, true), Form: form}
	c.answer(w, r, "exceptions", p, refused)
}

// answer writes a page, with why a form was refused, if it was.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, name string, p page, refused error) {
	code := http.StatusOK
	if refused != nil {
		p.Problem, code = refused.Error(), http.StatusUnprocessableEntity
	}
	c.write(w, r, code, name, p)
}

// explainPage is the page that explains a descriptor.
type explainPage struct {
	asked
	Answer      *explain.Answer // nil: there is none
	Counters    *adminapi.Counters
	PeekProblem string
	Form        exceptionForm
}

func (c *Console) explain(w http.ResponseWriter, r *http.Request) {
	c.showExplain(w, r, ask(r.URL.Query()), nil)
}

func (c *Console) showExplain(w http.ResponseWriter, r *http.Request, form asked, refused error) {
	data := explainPage{asked: form, Form: fillIn(url.Values{})}
	if form.Text != "" {
		if err := data.ask(c, r); err != nil {
			refused = err
		}
	}
	p := c.page(r, "Explain")
	p.Path = "/console/explain"
	p.Data = data
	c.answer(w, r, "explain", p, refused)
}

// ask asks the server. The error is why the descriptor cannot be asked for.
func (e *explainPage) ask(c *Console, r *http.Request) error {
	domain, entries, err := e.parse()
	if err != nil {
		return err
	}
	answer, err := c.server.Explain(domain, entries)
	if err != nil {
		return err
	}
	e.Answer = &answer
	d, _ := e.wire() // it was parsed
	if counters, err := c.server.Peek(r.Context(), d); err != nil {
		e.PeekProblem = err.Error()
	} else {
		e.Counters = &counters
	}
	return nil
}

// words are the functions of the templates.
var words = template.FuncMap{
	"line":   plaintext.Line,
	"lines":  plaintext.Lines,
	"short":  shorten,
	"number": number,
	"rate":   rate,
	"ago":    func(t time.Time) string { return span(time.Since(t)) + " ago" },
	"until":  func(t time.Time) string { return "in " + span(time.Until(t)) },
	"span":   func(seconds float64) string { return span(time.Duration(seconds * float64(time.Second))) },
	"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}

// number writes a number with commas between thousands.
func number(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// rate writes a rate with one place after the point, if it is small.
func rate(r float64) string {
	switch {
	case r >= 100:
		return number(int64(r + 0.5))
	case r == 0:
		return "0"
	default:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
}

// span writes a time with its two largest units.
func span(d time.Duration) string {
	d = max(d.Round(time.Second), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}
