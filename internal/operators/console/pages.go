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

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/explain"
	"weir/internal/operators"
	"weir/internal/operators/api"
)

// maxKeys is how many keys the page Now has at most.
const maxKeys = 25

// nowPage is the page of what happens now.
type nowPage struct {
	Chart chart
	// Window is minute or hour, Servers this or all, as the address asks for.
	Window, Servers string
	Denials         operators.Denials
	Exceptions      operators.ExceptionList
	Problem         error // why nothing is known of other servers
	From            time.Time
	Keys            []deniedKey // of all limits
	OthersMost      uint64
	Store           []figure
	Loads           []Load
}

// deniedKey is a key that was denied often.
type deniedKey struct {
	operators.Source
	operators.KeyDenials
}

func (c *console) now(r *http.Request) (any, error) {
	page := nowPage{Chart: draw(c.History(), time.Now()), Store: c.storeFigures(), Loads: c.Loads(), Window: "minute", Servers: "this"}
	all := r.Form.Get("servers") == "all"
	if all {
		page.Servers = "all"
	}
	page.Denials, page.Problem = c.Denials(r.Context(), all)
	exceptions, err := c.Exceptions(r.Context(), all)
	page.Exceptions, page.Problem = exceptions, cmp.Or(page.Problem, err)
	window := page.Denials.Minute
	if r.Form.Get("window") == "hour" {
		page.Window, window = "hour", page.Denials.Hour
	}
	page.addKeys(window)
	return page, nil
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

func (c *console) exceptions(r *http.Request) (any, error) {
	list, err := c.Exceptions(r.Context(), true)
	return struct {
		Form       url.Values
		Exceptions operators.ExceptionList
		Problem    error
	}{r.Form, list, err}, nil
}

// explainPage is the page that explains a descriptor.
type explainPage struct {
	Form        url.Values
	Answer      *explain.Answer // nil: there is none
	Counters    operators.Counters
	PeekProblem error
}

// explain explains the descriptor of a form by the rules that serve, and looks at its
// counters. The error is why it cannot be asked for.
func (c *console) explain(r *http.Request) (any, error) {
	page := explainPage{Form: r.Form}
	if r.Form.Get("descriptor") == "" {
		return page, nil
	}
	domain, entries, err := read(r.Form)
	if err != nil {
		return page, err
	}
	tree := c.Tree()
	if tree == nil {
		return page, errors.New("no rules are loaded yet")
	}
	answer, err := explain.Explain(explain.Question{Options: c.Plan, Tree: tree, Failure: c.Failure, Domain: domain, Descriptor: entries})
	if err != nil {
		return page, err
	}
	page.Answer = &answer
	page.Counters, page.PeekProblem = c.Peek(r.Context(), operators.NewDescriptor(domain, entries))
	return page, nil
}

// words are the functions of the templates, beside those of api.
var words = template.FuncMap{
	"kept": kept,
	"given": func(d operators.Descriptor) shown {
		domain, entries, _ := d.Bytes()
		return shown{spelled: spell(domain, entries)}
	},
	"lines":  plaintext.Lines,
	"short":  func(s string) string { return api.Short(s, 256) },
	"mode":   descriptors.ModeWord,
	"number": number,
	"rate":   rate,
	"ago":    func(t time.Time) string { return operators.Span(time.Since(t)) + " ago" },
	"until":  func(t time.Time) string { return "in " + operators.Span(time.Until(t)) },
	"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}

// shown is a descriptor to read, and to click if it lacks nothing.
type shown struct {
	spelled
	Lacks  string // as operators.Excerpt says it
	Digest string // of a descriptor that is cut
}

func kept(domain string, d operators.Excerpt) shown {
	text, lacks := d.Spell()
	return shown{spelled{explain.FormatDomain(domain), text}, lacks, d.Digest}
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
