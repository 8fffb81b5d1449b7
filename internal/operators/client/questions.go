package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Question is a question or an order to a server. Its fields are flags and arguments of a command.
type Question interface {
	ask(ctx context.Context, c *Client) (*Answer, error)
}

// Ask asks the server a question.
func (c *Client) Ask(ctx context.Context, q Question) (*Answer, error) { return q.ask(ctx, c) }

// Status asks for the state of the server.
type Status struct{}

func (Status) ask(ctx context.Context, c *Client) (*Answer, error) {
	status, a, err := ask[api.Status](ctx, c, "status", http.MethodGet, "/status", nil)
	a.Bad = len(status.Problems) > 0 && status.Problems[0].Red // the worst is first
	return a, err
}

// Scope selects a part of a list.
type Scope struct {
	Domain explain.Domain `arg:"" optional:"" help:"Show only this domain."`
	This   bool           `help:"Show only the server that is asked, not all that share its Redis."`
}

func (s Scope) query() string {
	if s.This {
		return "?servers=this"
	}
	return "?servers=all"
}

// askAll asks for a list of all servers or, if s.This is set, of the asked server only. The parameter more is
// added to the query. If Redis fails, askAll asks for the list of the asked server, and notes the reason.
func askAll[T any](ctx context.Context, c *Client, s Scope, text, path, more string) (*T, *Answer, error) {
	list, a, err := ask[T](ctx, c, text, http.MethodGet, path+s.query()+more, nil)
	if errors.Is(err, ErrUnavailable) && !s.This {
		why := err
		list, a, err = askAll[T](ctx, c, Scope{This: true}, text, path, more)
		a.Note = "only the server that was asked is shown: " + why.Error()
	}
	return list, a, err
}

func (s Scope) hides(domain string) bool { return s.Domain != "" && string(s.Domain) != domain }

// denials returns the denials in s of descriptors that have, or may have, the given entries. If there are
// none and the server doubts the domain or the entries, the answer has a note.
func (s Scope) denials(ctx context.Context, c *Client, text string, of explain.Entries) (*operators.Denials, *Answer, error) {
	doubted := url.Values{"domain": {string(s.Domain)}, "descriptor": {explain.FormatDescriptor(of)}}
	d, a, err := askAll[operators.Denials](ctx, c, s, text, "/denials", "&"+doubted.Encode())
	a.Now = d.At.In(a.Now.Location())
	isOther := func(k operators.Key) bool {
		return slices.ContainsFunc(of, func(e limiter.Entry) bool { return !k.Descriptor.MayHave(e) })
	}
	for _, w := range []*operators.Window{&d.Minute, &d.Hour} {
		for i := range w.Limits {
			l := &w.Limits[i]
			l.Keys = slices.DeleteFunc(l.Keys, func(k operators.KeyDenials) bool {
				other := isOther(k.Key)
				if other {
					l.OthersAtMost = max(l.OthersAtMost, k.Denied)
				}
				return other
			})
		}
		w.Limits = slices.DeleteFunc(w.Limits, func(l operators.LimitDenials) bool { return s.hides(l.Domain) })
	}
	d.Last = slices.DeleteFunc(d.Last, func(l operators.LastDenial) bool { return s.hides(l.Domain) || isOther(l.Key) })
	if len(d.Last) == 0 {
		a.Note = cmp.Or(a.Note, d.Note)
	}
	return d, a, err
}

// Top asks for the keys with the most denials, or for the most used budgets.
type Top struct {
	Scope
	Budgets bool `help:"Show the budgets of which the largest share is used, and when they will be used up; and the shares of Envoys in limits with quota_service."`

	Window string `enum:"minute,hour" default:"hour" help:"Time span that text shows: the last minute or hour."`
}

func (q Top) ask(ctx context.Context, c *Client) (*Answer, error) {
	if q.Budgets {
		list, a, err := askAll[operators.BudgetList](ctx, c, q.Scope, "budgets", "/budgets", "")
		list.Budgets = slices.DeleteFunc(list.Budgets, func(b operators.Budget) bool { return q.hides(b.Domain) })
		list.Shares = slices.DeleteFunc(list.Shares, func(s operators.Share) bool { return q.hides(s.Domain) })
		return a, err
	}
	d, a, err := q.denials(ctx, c, "top", nil)
	a.Window = &d.Hour
	if q.Window == "minute" {
		a.Window = &d.Minute
	}
	return a, err
}

// Denials asks for the last denials.
type Denials struct {
	Scope
	Descriptor explain.Entries `arg:"" optional:"" help:"Show only descriptors with these entries, such as user=alice."`

	N uint16 `short:"n" default:"20" placeholder:"N" help:"Show at most N, the newest."`
}

func (q Denials) ask(ctx context.Context, c *Client) (*Answer, error) {
	d, a, err := q.denials(ctx, c, "denials", q.Descriptor)
	d.Last = d.Last[:min(len(d.Last), int(q.N))]
	return a, err
}

// Descriptor is the descriptor of a question.
type Descriptor struct {
	Domain     explain.Domain  `arg:"" help:"Domain of the descriptor."`
	Descriptor explain.Entries `arg:"" help:"Entries of the descriptor, such as user=alice,path=/login. Here and in the domain, put a backslash before a literal comma, = or backslash; \\x0a is the byte 0a."`
}

func (d Descriptor) sent() plan.JSONDescriptor {
	return plan.NewJSONDescriptor(string(d.Domain), d.Descriptor)
}

// counters sends the descriptor, and returns the answer with its counters.
func (d Descriptor) counters(ctx context.Context, c *Client, path string) (*Answer, error) {
	counters, a, err := ask[operators.Counters](ctx, c, "counters", http.MethodPost, path, d.sent())
	a.Bad = counters.Rule == ""
	return a, err
}

// By is the name of the person who changes something. The default is the parser's variable user.
type By struct {
	By string `placeholder:"NAME" default:"${user}" help:"Who does this, for the audit log of the server. The default is your user name."`
}

func (b By) query() string { return "?by=" + url.QueryEscape(b.By) }

// Peek asks for the counters and the denials of a descriptor.
type Peek struct {
	Descriptor
	This bool `help:"Show the denials of the server that is asked only, not of all that share its Redis."`
}

func (q Peek) ask(ctx context.Context, c *Client) (*Answer, error) {
	return q.counters(ctx, c, "/peek"+Scope{This: q.This}.query())
}

// Reset sets the counters of a descriptor to zero.
type Reset struct {
	Descriptor
	By
}

func (q Reset) ask(ctx context.Context, c *Client) (*Answer, error) {
	return q.counters(ctx, c, "/reset"+q.query())
}

// Exceptions asks for the exceptions in force.
type Exceptions struct{ Scope }

func (q Exceptions) ask(ctx context.Context, c *Client) (*Answer, error) {
	list, a, err := askAll[operators.ExceptionList](ctx, c, q.Scope, "exceptions", "/exceptions", "")
	list.Exceptions = slices.DeleteFunc(list.Exceptions, func(x plan.Exception) bool {
		domain, _ := x.Bytes()
		return q.hides(domain)
	})
	return a, err
}

// Add adds an exception.
type Add struct {
	Descriptor
	Allow  bool          `xor:"effect" help:"Allow everything."`
	Deny   bool          `xor:"effect" help:"Deny everything."`
	Amount factor        `xor:"effect" placeholder:"10x" help:"Multiply all limits, by 0.001x to 1000000x."`
	For    time.Duration `xor:"end" placeholder:"2h" help:"How long it applies, such as 30m, 12h or 7d."`
	Until  moment        `xor:"end" placeholder:"TIME" help:"When it ends instead, such as 2026-11-30T08:00, in the time zone of this machine."`
	Reason string        `required:"" placeholder:"TEXT" help:"Why, for others and for the audit log of the server."`
	By
}

// moment is a time in the time zone of this machine.
type moment struct{ time.Time }

// UnmarshalText parses a date with the time of day.
func (m *moment) UnmarshalText(text []byte) (err error) {
	if m.Time, err = time.ParseInLocation("2006-01-02T15:04", string(text), time.Local); err != nil {
		return fmt.Errorf("%q is not a time; use a form such as 2026-11-30T08:00", text)
	}
	return nil
}

// factor multiplies limits.
type factor float64

// UnmarshalText parses a number with or without an x after it.
func (f *factor) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "x"), 64)
	if err != nil || n != n {
		return fmt.Errorf("%q is not a number; use 0.001x to 1000000x, such as 10x", text)
	}
	*f = factor(n)
	return nil
}

func (q Add) ask(ctx context.Context, c *Client) (*Answer, error) {
	switch {
	case !q.Until.IsZero():
		q.For = time.Until(q.Until.Time)
	case q.For == 0:
		return nil, errors.New("one of --for and --until is required")
	}
	e := plan.Exception{JSONDescriptor: q.sent(), Effect: plan.Amount, Factor: float64(q.Amount), For: q.For.Seconds(), By: q.By.By, Reason: q.Reason}
	switch {
	case q.Allow:
		e.Effect = plan.Allow
	case q.Deny:
		e.Effect = plan.Deny
	case q.Amount == 0:
		return nil, errors.New("one of --allow, --deny and --amount is required")
	}
	x, a, err := ask[plan.Exception](ctx, c, "added", http.MethodPost, "/exceptions", e)
	a.Note = x.Note
	return a, err
}

// Remove removes an exception. Its error is an ErrNotFound if there is no such exception.
type Remove struct {
	ID string `arg:"" name:"id" help:"ID of the exception, as except list shows it."`
	By
}

func (q Remove) ask(ctx context.Context, c *Client) (*Answer, error) {
	_, _, err := c.send(ctx, http.MethodDelete, "/exceptions/"+url.PathEscape(q.ID)+q.query(), nil)
	return &Answer{text: "removed", Value: map[string]string{"id": q.ID}}, err
}

// Assign assigns amounts to descriptors.
type Assign struct {
	Domain     explain.Domain  `arg:"" optional:"" help:"Domain of the descriptor."`
	Descriptor explain.Entries `arg:"" optional:"" help:"Entries of the descriptor, such as tenant=acme."`
	Amount     string          `arg:"" optional:"" help:"Amount in the period of the rule: a whole number, unlimited, or +N to add N to what is assigned, or to 0 if nothing is."`
	Limit      string          `placeholder:"NAME" help:"Name of the limit, if the rule has several."`
	Remove     bool            `help:"Remove what is assigned, so that the rule's own amount counts."`
	ID         string          `placeholder:"ID" help:"Name of this change, such as that of a payment. A change with the same name as one of the last 16 of this amount does nothing."`
	Note       string          `placeholder:"TEXT" help:"A note for others, such as the contract."`
	File       string          `type:"existingfile" placeholder:"FILE" help:"Assign the amounts of a CSV file: UTF-8, with commas and the columns domain, descriptor, limit, amount, note, in this order or as the first line names them. Amounts that do not differ stay."`
	Prune      bool            `help:"With --file, also remove the assigned amounts that the file does not have, at most a tenth of all."`
	Yes        bool            `help:"With --prune, remove more than a tenth, too."`
	By
}

func (q Assign) ask(ctx context.Context, c *Client) (*Answer, error) {
	method, query := http.MethodPut, q.query()
	var body any
	amount, adds := strings.CutPrefix(q.Amount, "+")
	switch {
	case q.File != "" && (q.Domain != "" || q.Remove || q.ID != ""):
		return nil, errors.New("--file takes no descriptor, --remove and --id")
	case q.File == "" && q.Prune:
		return nil, errors.New("--prune needs --file")
	case q.File != "":
		f, err := os.Open(q.File)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		body = &progress{f, c.options.Progress, info.Size(), 0, time.Time{}}
		query += fmt.Sprintf("&prune=%t&yes=%t", q.Prune, q.Yes)
	case len(q.Descriptor) == 0 || q.Remove == (q.Amount != ""):
		return nil, errors.New("a domain, a descriptor and either an amount or --remove are required, or --file")
	default:
		body = operators.Assignment{
			Domain: explain.FormatDomain(string(q.Domain)), Descriptor: explain.FormatDescriptor(q.Descriptor),
			Limit: q.Limit, Amount: operators.Amount(amount), Note: q.Note, ID: q.ID,
		}
	}
	switch {
	case adds:
		method = http.MethodPost
	case q.Remove:
		method = http.MethodDelete
	}
	done, a, err := ask[operators.AssignedChanges](ctx, c, "assigned_changes", method, "/assigned"+query, body)
	a.Note, a.Bad = done.Note, done.Refused+done.Unpruned > 0
	return a, err
}

// progress shows how much of a file is read, at most twice a second.
type progress struct {
	*os.File
	to         io.Writer
	size, read int64
	shown      time.Time
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.File.Read(b)
	if p.read += int64(n); p.to != nil && (err != nil || time.Since(p.shown) > time.Second/2) {
		fmt.Fprintf(p.to, "\r%d %% sent", 100*p.read/max(p.size, 1))
		if p.shown = time.Now(); err != nil {
			fmt.Fprintln(p.to)
		}
	}
	return n, err
}

// Assignments asks for assigned amounts.
type Assignments struct {
	Prefix string `arg:"" optional:"" help:"Show only descriptors that begin with this text, such as tenant=a."`
	Domain string `placeholder:"NAME" help:"Show only this domain."`
	N      uint32 `short:"n" default:"100" placeholder:"N" help:"Show at most N. The default is 100."`
}

func (q Assignments) ask(ctx context.Context, c *Client) (*Answer, error) {
	query := url.Values{"prefix": {q.Prefix}, "domain": {q.Domain}, "n": {fmt.Sprint(q.N)}}
	_, a, err := ask[operators.AssignmentList](ctx, c, "assigned", http.MethodGet, "/assigned?"+query.Encode(), nil)
	return a, err
}
