package console

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// maxKeys is the maximum number of keys on the page Now.
const maxKeys = 25

// nowPage is the data of the page Now.
type nowPage struct {
	Chart chart
	// Window is "minute" or "hour", and Servers is "this" or "all", from the query.
	Window, Servers string
	Denials         operators.Denials
	Exceptions      operators.ExceptionList
	Problem         error // why the other servers did not answer
	From            time.Time
	Keys            []deniedKey // denied keys of all limits
	OthersMost      uint64
	Store           storePage
	Loads           []Load
}

// deniedKey is a key with its limit and its denials.
type deniedKey struct {
	operators.Source
	operators.KeyDenials
}

func (c *console) now(r *http.Request) (any, error) {
	page := nowPage{Chart: draw(c.History(), time.Now()), Loads: c.Loads(), Window: "minute", Servers: "this"}
	all := r.Form.Get("servers") == "all"
	if all {
		page.Servers = "all"
	}
	var problem error
	var interval time.Duration
	page.Store.Now, page.Store.before, interval = c.store.sample(time.Now())
	page.Store.Seconds = interval.Seconds()
	page.Denials, page.Problem = c.Denials(r.Context(), all)
	page.Exceptions, problem = c.Exceptions(r.Context(), all)
	page.Problem = cmp.Or(page.Problem, problem)
	window := page.Denials.Minute
	if r.Form.Get("window") == "hour" {
		page.Window, window = "hour", page.Denials.Hour
	}
	page.From, page.OthersMost = window.From, window.OthersAtMost
	for _, l := range window.Limits {
		page.OthersMost = max(page.OthersMost, l.OthersAtMost)
		for _, k := range l.Keys {
			page.Keys = append(page.Keys, deniedKey{l.Source, k})
		}
	}
	slices.SortStableFunc(page.Keys, func(a, b deniedKey) int { return cmp.Compare(b.Denied, a.Denied) })
	if len(page.Keys) > maxKeys {
		page.OthersMost = max(page.OthersMost, page.Keys[maxKeys].Denied)
		page.Keys = page.Keys[:maxKeys]
	}
	return page, nil
}

// storePage has the metrics of the store, by name and label values, now and some seconds ago.
type storePage struct {
	Now, before map[string]map[string]float64
	Seconds     float64
}

// Grown returns the growth of a metric without labels.
func (s storePage) Grown(name string) float64 { return s.Now[name][""] - s.before[name][""] }

// storeMetrics returns the metrics of the store as in storePage.Now. The value of a histogram is its sum.
func (c *console) storeMetrics() map[string]map[string]float64 {
	byName := map[string]map[string]float64{}
	families, _ := c.StoreMetrics.Gather() // in case of errors, it returns the other metrics
	for _, f := range families {
		byName[f.GetName()] = map[string]float64{}
		for _, m := range f.GetMetric() {
			values := ""
			for _, l := range m.GetLabel() {
				values += l.GetValue()
			}
			byName[f.GetName()][values] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return byName
}

func (c *console) budgets(r *http.Request) (any, error) {
	list, err := c.Budgets(r.Context(), true)
	return struct {
		operators.BudgetList
		Problem error // why the other servers did not answer
	}{list, err}, nil
}

// day returns the points of the curve of a budget's last 24 hours. Each hour is 20 units wide.
func day(b operators.Budget) (points string) {
	for i, used := range b.Day {
		x, part := float64(20*(24-len(b.Day)+i)), min(float64(used)/float64(b.Amount), 1)
		points += point(x, part) + point(x+20, part)
	}
	return points
}

func (c *console) exceptions(r *http.Request) (any, error) {
	list, err := c.Exceptions(r.Context(), true)
	return struct {
		Form       url.Values
		Exceptions operators.ExceptionList
		Problem    error
	}{r.Form, list, err}, nil
}

// words are template functions besides api.Words.
var words = template.FuncMap{
	"kept": kept,
	"given": func(d plan.JSONDescriptor) shown {
		domain, entries := d.Bytes()
		return spell(domain, entries)
	},
	"day":    day,
	"lines":  plaintext.Lines,
	"place":  place,
	"share":  func(used, amount uint64) float64 { return float64(used) / float64(max(amount, 1)) },
	"short":  func(s string) string { return api.Short(s, 256) },
	"mode":   descriptors.ModeWord,
	"number": plaintext.Number,
	"uses":   func(n uint64) string { return plaintext.Number(n) }, // the template dereferences a pointer
	"per":    func(n, of float64) float64 { return n / of },
	"now":    time.Now,
	"rate":   rate,
	"ago":    func(t time.Time) string { return operators.Span(time.Since(t)) + " ago" },
	"until":  func(t time.Time) string { return "in " + operators.Span(time.Until(t)) },
	"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"moment": func(t time.Time) string {
		v := operators.Times{Now: time.Now().UTC()}
		return v.Clock(t) + " " + v.Zone()
	},
	"hour": func(minutes int) string {
		return time.Now().Add(time.Duration(minutes) * time.Minute).UTC().Format("15:04")
	},
	"page":  func(link string) string { return strings.Replace(link, "docs/at-3am.md", "/console/at-3am", 1) },
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}

func kept(domain string, d operators.Excerpt) shown {
	text, lacks := d.Spell()
	return shown{explain.FormatDomain(domain), text, lacks, d.Digest}
}

// place returns a file name as HTML in which a line can break only after a slash.
func place(name string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(api.Short(name, 500)), "/", "/<wbr>")) //nolint:gosec // it is escaped
}

// rate formats a rate, with one decimal if it is below 100.
func rate(r float64) string {
	if r == 0 || r >= 100 {
		return plaintext.Number(int64(r + 0.5))
	}
	return strconv.FormatFloat(r, 'f', 1, 64)
}

// chart shows the rates of the last minutes as curves, in a picture of chartWidth times chartHeight
// that browsers scale, and as numbers.
type chart struct {
	Decisions, Denials, Undecided string      // points of the curves
	Area                          string      // points of the area below the denials
	Ticks                         []float64   // labels of the axis, from the top
	Minutes                       []api.Rates // means of twelve rates, the newest first
	Empty                         bool        // all rates are 0
}

const (
	chartWidth  = 900 // one unit per second
	chartHeight = 200
)

// draw returns a chart of rates up to now. The rates must be in order, the oldest first.
func draw(rates []api.Rates, now time.Time) (c chart) {
	top, last := 1.0, ""
	c.Empty = true
	for _, r := range rates {
		top = max(top, roundUp(r.Decisions), roundUp(r.Denials), roundUp(r.Undecided))
		c.Empty = c.Empty && r.Decisions == 0 && r.Undecided == 0
	}
	c.Ticks = []float64{top, top / 2, 0}
	for _, r := range rates {
		if x := chartWidth - now.Sub(r.At).Seconds(); x >= 0 {
			c.Decisions += point(x, r.Decisions/top)
			c.Denials += point(x, r.Denials/top)
			c.Undecided += point(x, r.Undecided/top)
			last = point(x, 0)
			c.Area = cmp.Or(c.Area, last)
		}
	}
	c.Area += c.Denials + last
	for chunk := range slices.Chunk(rates, 12) {
		var m api.Rates
		for _, r := range chunk {
			m.At, m.Decisions, m.Denials = r.At, m.Decisions+r.Decisions/float64(len(chunk)), m.Denials+r.Denials/float64(len(chunk))
			m.Undecided += r.Undecided / float64(len(chunk))
		}
		c.Minutes = slices.Insert(c.Minutes, 0, m)
	}
	return c
}

// point returns a point of a curve. The parameter part is its height as a share of chartHeight.
func point(x, part float64) string { return fmt.Sprintf("%.1f,%.1f ", x, chartHeight*(1-part)) }

// roundUp returns the smallest of the numbers 1, 2, 5, 10, 20, 50 and so on that is not below n.
func roundUp(n float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(n, 1))))
	for _, f := range []float64{1, 2, 5} {
		if n <= f*power {
			return f * power
		}
	}
	return 10 * power
}

// shown is a descriptor in the syntax of commands, for forms, and for a link if Lacks is empty.
type shown struct {
	Domain, Text string
	Lacks        string // as Excerpt.Spell returns it
	Digest       string // digest of a descriptor that is cut
}

func spell(domain string, entries []limiter.Entry) shown {
	return shown{Domain: explain.FormatDomain(domain), Text: explain.FormatDescriptor(entries)}
}

// read returns the descriptor of a form. It fails if a field is missing or invalid.
func read(form url.Values) (domain string, entries []limiter.Entry, err error) {
	domain, text := strings.TrimSpace(form.Get("domain")), strings.TrimSpace(form.Get("descriptor"))
	if domain == "" || text == "" {
		return "", nil, errors.New("a domain and a descriptor are required")
	}
	if domain, err = explain.ParseDomain(domain); err != nil {
		return "", nil, fmt.Errorf("domain: %w", err)
	}
	if entries, err = explain.ParseDescriptor(text); err != nil {
		return "", nil, fmt.Errorf("descriptor: %w", err)
	}
	return domain, entries, nil
}

// exception returns the exception of a form. It fails if a field is invalid.
func exception(form url.Values) (e plan.Exception, err error) {
	domain, entries, err := read(form)
	if err != nil {
		return e, err
	}
	e.JSONDescriptor, e.Effect = plan.NewJSONDescriptor(domain, entries), plan.Effect(form.Get("effect"))
	e.By, e.Reason = strings.TrimSpace(form.Get("by")), strings.TrimSpace(form.Get("reason"))
	if e.Effect == plan.Amount {
		if e.Factor, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(form.Get("factor")), "x"), 64); err != nil {
			return e, fmt.Errorf("times: %q is not a number", form.Get("factor"))
		}
	}
	lasts, err := time.ParseDuration(strings.TrimSpace(form.Get("for")))
	if until := form.Get("until"); until != "" {
		at, err := time.Parse("2006-01-02T15:04", until)
		if err != nil {
			return e, fmt.Errorf("until: %q is not a date and time such as 2026-11-30T08:00", until)
		}
		lasts = time.Until(at)
	} else if err != nil {
		return e, fmt.Errorf("for: %q is not a duration such as 30m, 2h or 24h", form.Get("for"))
	}
	e.For = lasts.Seconds()
	return e, nil
}

// addException, removeException and reset make the change that a form asks for, and return the name of the
// message on the next page.
func (c *console) addException(r *http.Request) (done string, err error) {
	e, err := exception(r.PostForm)
	if err != nil {
		return "", err
	}
	added, err := c.AddException(r.Context(), e, api.VisitorOf(r).Peer)
	if added.Note != "" {
		return "noRule", err
	}
	return "added", err
}

// byConsole is the name in the audit log for forms that ask for no name. The log has the peer, too.
const byConsole = "console"

func (c *console) removeException(r *http.Request) (done string, err error) {
	return "removed", c.InForce.Remove(r.Context(), r.PostFormValue("id"), byConsole, api.VisitorOf(r).Peer)
}

func (c *console) reset(r *http.Request) (done string, err error) {
	domain, entries, err := read(r.PostForm)
	if err == nil {
		_, err = c.Reset(r.Context(), plan.NewJSONDescriptor(domain, entries), byConsole, api.VisitorOf(r).Peer)
	}
	return "reset", err
}
