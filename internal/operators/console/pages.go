package console

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/explain"
	"weir/internal/operators"
	"weir/internal/operators/api"
)

// How many lines the tables have at most.
const (
	maxKeys       = 25
	maxLast       = 50
	maxExceptions = 500
)

// nowPage is the page of what happens now.
type nowPage struct {
	Chart chart
	// Window is minute or hour, Servers this or all, as the address asks for.
	Window, Servers string
	Asked           int // servers
	From            time.Time
	Keys            []deniedKey // of all limits
	OthersMost      uint64
	Last            []operators.LastDenial
	Problem         string // why nothing is known of denials
	Store           []figure
	Loads           []Load
	Exceptions      exceptionList
}

// deniedKey is a key that was denied often.
type deniedKey struct {
	operators.Source
	operators.KeyDenials
}

func (c *Console) now(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	data := nowPage{
		Chart: draw(c.History(), time.Now()), Store: c.storeFigures(), Loads: c.Loads(),
		Window: "minute", Servers: "this",
	}
	all := query.Get("servers") == "all"
	if all {
		data.Servers = "all"
	}
	summary, err := c.Denials(r.Context(), all)
	if err != nil {
		data.Problem = err.Error()
	}
	data.Asked, data.Last = summary.Servers, summary.Last[:min(len(summary.Last), maxLast)]
	window := summary.Minute
	if query.Get("window") == "hour" {
		data.Window, window = "hour", summary.Hour
	}
	data.addKeys(window)
	data.Exceptions = c.listExceptions(r, all)
	c.show(w, r, "now", "Now", data, nil)
}

// addKeys adds the keys of all limits that were denied most.
func (n *nowPage) addKeys(window operators.Window) {
	n.From, n.OthersMost = window.From, window.OthersAtMost
	for _, l := range window.Limits {
		n.OthersMost = max(n.OthersMost, l.OthersAtMost)
		for _, k := range l.Keys {
			n.Keys = append(n.Keys, deniedKey{l.Source, k})
		}
	}
	slices.SortStableFunc(n.Keys, func(a, b deniedKey) int { return cmp.Compare(b.Denied, a.Denied) })
	if len(n.Keys) > maxKeys {
		n.OthersMost = max(n.OthersMost, n.Keys[maxKeys].Denied)
		n.Keys = n.Keys[:maxKeys]
	}
}

// exceptionList is a table of exceptions.
type exceptionList struct {
	List      []operators.Exception
	Left      int    // that are not in List
	Problem   string // why there is no list
	Servers   int    // that their uses are of
	MayChange bool
}

func (c *Console) listExceptions(r *http.Request, all bool) exceptionList {
	known, err := c.Exceptions(r.Context(), all)
	list := exceptionList{MayChange: api.VisitorOf(r).MayChange(), Servers: known.Servers, List: known.Exceptions}
	if err != nil {
		list.Problem = err.Error()
	}
	if list.Left = len(list.List) - maxExceptions; list.Left > 0 {
		list.List = list.List[:maxExceptions]
	}
	return list
}

// showExceptions writes the page with a form, and with why that was refused, if it was.
func (c *Console) showExceptions(w http.ResponseWriter, r *http.Request, form exceptionForm, refused error) {
	data := struct {
		List exceptionList
		Form exceptionForm
	}{c.listExceptions(r, true), form}
	c.show(w, r, "exceptions", "Exceptions", data, refused)
}

// explainPage is the page that explains a descriptor.
type explainPage struct {
	asked
	Answer      *explain.Answer // nil: there is none
	Counters    *operators.Counters
	PeekProblem string
	Form        exceptionForm
}

func (c *Console) showExplain(w http.ResponseWriter, r *http.Request, form asked, refused error) {
	data := explainPage{asked: form, Form: fillIn(url.Values{})}
	if form.Text != "" {
		refused = cmp.Or(data.ask(c, r), refused)
	}
	c.show(w, r, "explain", "Explain", data, refused)
}

// ask explains the descriptor by the rules that serve, and looks at its counters. The error
// is why it cannot be asked for.
func (e *explainPage) ask(c *Console, r *http.Request) error {
	domain, entries, err := e.parse()
	if err != nil {
		return err
	}
	tree := c.Tree()
	if tree == nil {
		return errors.New("no rules are loaded yet")
	}
	answer, err := explain.Explain(explain.Question{Options: c.Plan, Tree: tree, Failure: c.Failure, Domain: domain, Descriptor: entries})
	if err != nil {
		return err
	}
	e.Answer = &answer
	if counters, err := c.Peek(r.Context(), operators.NewDescriptor(domain, entries)); err != nil {
		e.PeekProblem = err.Error()
	} else {
		e.Counters = &counters
	}
	return nil
}

// words are the functions of the templates.
var words = template.FuncMap{
	"kept":    showExcerpt,
	"given":   showWhole,
	"line":    plaintext.Line,
	"lines":   plaintext.Lines,
	"short":   shorten,
	"number":  number,
	"rate":    rate,
	"ago":     func(t time.Time) string { return operators.Span(time.Since(t)) + " ago" },
	"until":   func(t time.Time) string { return "in " + operators.Span(time.Until(t)) },
	"failure": api.Failure,
	"span":    func(seconds float64) string { return operators.Span(operators.Seconds(seconds)) },
	"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
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
	if r == 0 || r >= 100 {
		return number(int64(r + 0.5))
	}
	return strconv.FormatFloat(r, 'f', 1, 64)
}
