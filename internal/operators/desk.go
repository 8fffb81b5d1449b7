package operators

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/plan/explain"
	"weir/internal/rlqs"
)

// Desk answers operators, for this server or for all servers that share its Redis. All fields
// must be set unless their comments say otherwise. A Desk is safe for concurrent use. Its
// errors wrap a Kind, if there is one for the reason.
type Desk struct {
	Logger *slog.Logger             // also gets the audit log
	Tree   func() *descriptors.Tree // the rules in use, or nil if none are loaded yet
	Store  limiter.CounterStore
	Plan   plan.Options // options by which requests become hits

	Recorder *Recorder
	Spending *Spending
	InForce  *ExceptionStore
	Servers  *Servers // or nil if this server does not share its counters
	// Shares returns shares of Envoys in limits with quota_service. The parameter most is their maximum number.
	Shares func(now time.Time, most int) []rlqs.Share
}

// Denials returns the recent denials of this server or of all servers. If the other servers cannot be asked,
// Denials, Budgets and Exceptions return an error and the answer for this server.
func (d *Desk) Denials(ctx context.Context, all bool) (Denials, error) {
	others, err := d.others(ctx, all)
	each := []Denials{d.denialsHere()}
	for _, r := range others {
		each = append(each, r.Denials)
	}
	return mergeDenials(each...), err
}

// denialsHere returns all recent denials of this server, with the locations of their rules.
func (d *Desk) denialsHere() Denials {
	here := d.Recorder.Denials(time.Now())
	if tree := d.Tree(); tree != nil {
		here.locate(tree.Locations)
	}
	return here
}

// Budgets returns the counters of budgets with the largest used shares, as this server or all servers know them.
func (d *Desk) Budgets(ctx context.Context, all bool) (BudgetList, error) {
	others, err := d.others(ctx, all)
	now := time.Now()
	lists := []BudgetList{d.budgetsHere(now)}
	for _, r := range others {
		lists = append(lists, r.Budgets)
	}
	list := mergeBudgets(lists...)
	d.refresh(ctx, now, list.Budgets)
	return list, err
}

// budgetsHere returns all budgets of this server, and the shares of Envoys.
func (d *Desk) budgetsHere(now time.Time) BudgetList {
	list := d.Spending.list(now)
	for _, s := range d.Shares(now, maxLimits) {
		asked := Asked{s.Domain, s.Entries, s.Patterns, []byte(s.Key), d.Plan.Keys.Digests}
		x := asked.Excerpt(keySize)
		list.Shares = append(list.Shares, Share{newSource(s.Limit, x.Domain, false), x, s.Rates})
	}
	return list
}

// others returns the reports of the other servers, or nil if all is false.
func (d *Desk) others(ctx context.Context, all bool) ([]Report, error) {
	if !all || d.Servers == nil {
		return nil, nil
	}
	reports, err := d.Servers.Reports(ctx)
	if err != nil {
		err = Errorf(ErrUnavailable, "the other servers cannot be asked (servers=this asks this server alone): %w", err)
	}
	return reports, err
}

// reportBytes is the maximum size of the denials in a report, as JSON.
const reportBytes = 300 << 10

// Report returns this server's report for the other servers.
func (d *Desk) Report() Report {
	report := Report{Denials: d.denialsHere(), Budgets: mergeBudgets(d.budgetsHere(time.Now())), Uses: map[string]uint64{}}
	report.Denials.fit(reportBytes)
	for _, e := range d.InForce.All() {
		if used := *e.Now().Used; used > 0 {
			report.Uses[e.ID] = used
		}
	}
	return report
}

// Exceptions returns the exceptions in force, with their uses on this server or on all servers.
func (d *Desk) Exceptions(ctx context.Context, all bool) (ExceptionList, error) {
	others, err := d.others(ctx, all)
	list := ExceptionList{Exceptions: []plan.Exception{}, Servers: 1 + len(others)}
	for _, e := range d.InForce.All() {
		answer := e.Now()
		for _, r := range others {
			*answer.Used += r.Uses[e.ID]
		}
		list.Exceptions = append(list.Exceptions, answer)
	}
	return list, err
}

// AddException adds an exception on behalf of a person at the address peer. The result has a note if no rule
// has the domain of the exception or one of its keys.
func (d *Desk) AddException(ctx context.Context, n plan.Exception, peer string) (plan.Exception, error) {
	tree := d.Tree()
	domain, entries := n.Bytes()
	if tree != nil { // an exception applies to descriptors as they are counted
		_, _, entries = tree.MatchCounted(domain, entries)
	}
	n.JSONDescriptor = plan.NewJSONDescriptor(domain, entries) // base64 only where it is needed
	added, err := d.InForce.Add(ctx, n, peer)
	if err == nil {
		added.Note = explain.Doubt(tree, domain, entries)
	}
	return added, err
}

// Kind is a kind of error. Its value is the HTTP status of the answer.
type Kind int

// The kinds of errors. All other errors have the status 500.
const (
	ErrBadRequest   Kind = http.StatusBadRequest          // asking again does not help
	ErrNotFound     Kind = http.StatusNotFound            // for example, no such exception
	ErrFull         Kind = http.StatusConflict            // the maximum number is reached
	ErrInvalidRules Kind = http.StatusUnprocessableEntity // the rules were read, but are invalid
	ErrUnavailable  Kind = http.StatusServiceUnavailable  // Redis fails, or no rules are loaded; asking again may help
)

// Error implements error.
func (k Kind) Error() string { return strings.ToLower(http.StatusText(int(k))) }

// Errorf returns an error that wraps kind and the errors that format wraps. Its text is the
// formatted text, without the name of the kind.
func Errorf(kind Kind, format string, args ...any) error {
	return kindError{fmt.Errorf(format, args...), kind}
}

type kindError struct {
	error
	kind Kind
}

// Unwrap lets errors.Is and errors.As find both errors.
func (e kindError) Unwrap() []error { return []error{e.kind, e.error} }

// ReadJSON decodes text into value. It fails if text is not exactly one JSON value, or has a
// field that value does not have.
func ReadJSON(text []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more text follows the JSON value")
	}
	return nil
}

// Servers exchanges states and reports with the servers on the same Redis. It is safe for
// concurrent use.
type Servers struct {
	shared  Shared
	name    string
	asked   atomic.Int64 // time of the last call of Reports, in nanoseconds since the epoch
	others  atomic.Pointer[map[string]string]
	silence atomic.Pointer[error]
}

// Others returns the last known states of the other servers, as JSON, by name.
func (s *Servers) Others() map[string]string { return *s.others.Load() }

// Silence returns the error of Run's last call to Redis, or nil. Run calls Redis even without requests.
func (s *Servers) Silence() error { return *s.silence.Load() }

// Report is one server's part of an answer that covers all servers.
type Report struct {
	Denials Denials           `json:"denials"`
	Budgets BudgetList        `json:"budgets"`
	Uses    map[string]uint64 `json:"uses"` // number of uses of each used exception, by ID
}

// NewServers returns a Servers that reports under a new random name.
func NewServers(shared Shared) *Servers {
	s := &Servers{shared: shared, name: rand.Text()}
	s.others.Store(new(map[string]string))
	s.silence.Store(new(error))
	return s
}

const (
	reportsWanted  = 3 * time.Second         // time for which servers report after a call of Reports
	reportEvery    = 750 * time.Millisecond  // interval between checks for wanted reports
	reportPatience = 1250 * time.Millisecond // time to wait for the first reports
	presentEvery   = 5 * time.Second         // interval at which a server sends its state
	presentLasts   = 3 * presentEvery        // time after which a server without a new state is considered stopped
)

// Run sends the result of state to the other servers, and the result of report while a server asks for
// reports, until ctx ends.
func (s *Servers) Run(ctx context.Context, state func() any, report func() Report) {
	var sent, met time.Time
	for ctx.Err() == nil {
		wanted, err := s.shared.ReportsWanted(ctx)
		s.silence.Store(&err)
		if time.Since(sent) >= presentEvery {
			sent = time.Now()
			text, _ := json.Marshal(state()) // cannot fail: it has only plain fields
			others, err := s.shared.Present(ctx, s.name, text, presentLasts)
			if err == nil || time.Since(met) > presentLasts { // otherwise, the known states are still recent
				met = sent
				delete(others, s.name)
				s.others.Store(&others)
			}
		}
		if err == nil && wanted {
			text, _ := json.Marshal(report())      // cannot fail: it has only plain fields
			_ = s.shared.Report(ctx, s.name, text) // if it fails, the next report replaces it
		}
		select {
		case <-time.After(reportEvery):
		case <-ctx.Done():
		}
	}
}

// Reports returns the reports of the other servers. If this server has not asked for them recently, it first
// waits for reportPatience. It fails only if Redis fails, and skips unreadable reports.
func (s *Servers) Reports(ctx context.Context) (reports []Report, err error) {
	found, err := s.shared.Reports(ctx, reportsWanted)
	if err == nil && time.Since(time.Unix(0, s.asked.Load())) >= reportsWanted {
		select {
		case <-time.After(reportPatience):
		case <-ctx.Done():
		}
		found, err = s.shared.Reports(ctx, reportsWanted)
	}
	if err != nil {
		return nil, err
	}
	s.asked.Store(time.Now().UnixNano())
	delete(found, s.name)
	for _, text := range found {
		var report Report
		if json.Unmarshal([]byte(text), &report) == nil {
			reports = append(reports, report)
		}
	}
	return reports, nil
}
