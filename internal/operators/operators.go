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
	"weir/internal/descriptors/spelling"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Desk is what operators can see and do, on this server or on all that share its Redis. All of
// it must be set, unless it says otherwise. It is safe for concurrent use. Its errors are of a
// Kind, where there is one for them.
type Desk struct {
	Logger *slog.Logger             // takes the audit log, too
	Tree   func() *descriptors.Tree // the rules that serve, nil if there are none yet
	Store  limiter.CounterStore
	Plan   plan.Options // how requests become hits

	Recorder *Recorder
	InForce  *Exceptions
	Servers  *Servers // nil: there are no others
}

// Denials returns what was denied lately, here or on all servers.
func (d *Desk) Denials(ctx context.Context, all bool) (Denials, error) {
	others, err := d.others(ctx, all)
	if err != nil {
		return Denials{}, err
	}
	each := []Denials{d.denialsHere()}
	for _, r := range others {
		each = append(each, r.Denials)
	}
	return mergeDenials(each...), nil
}

// denialsHere returns all that was denied lately on this server.
func (d *Desk) denialsHere() Denials {
	here := d.Recorder.Denials(time.Now())
	if tree := d.Tree(); tree != nil {
		here.locate(tree.Places)
	}
	return here
}

// others returns what the other servers report, if all are asked for.
func (d *Desk) others(ctx context.Context, all bool) ([]Report, error) {
	if !all || d.Servers == nil {
		return nil, nil
	}
	reports, err := d.Servers.Reports(ctx)
	if err != nil {
		err = Errorf(ErrUnavailable, "the other servers cannot be asked (use --this or servers=this for this server only): %w", err)
	}
	return reports, err
}

// reportBytes bounds the denials of a report as JSON.
const reportBytes = 300 << 10

// Report returns what other servers want to know of this one.
func (d *Desk) Report() Report {
	report := Report{Denials: d.denialsHere(), Uses: map[string]uint64{}}
	report.Denials.fit(reportBytes)
	for _, e := range d.InForce.All() {
		if used := e.Used(); used > 0 {
			report.Uses[e.ID] = used
		}
	}
	return report
}

// Exceptions returns those in force, with their uses here or on all servers.
func (d *Desk) Exceptions(ctx context.Context, all bool) (ExceptionList, error) {
	others, err := d.others(ctx, all)
	if err != nil {
		return ExceptionList{}, err
	}
	list := ExceptionList{Exceptions: []Exception{}, Servers: 1 + len(others)}
	for _, e := range d.InForce.All() {
		answer := exceptionOf(e)
		for _, r := range others {
			answer.Used += r.Uses[e.ID]
		}
		list.Exceptions = append(list.Exceptions, answer)
	}
	return list, nil
}

// AddException adds an exception for somebody at the address peer.
func (d *Desk) AddException(ctx context.Context, n NewException, peer string) (Exception, error) {
	tree := d.Tree()
	domain, entries, err := n.Bytes()
	if err == nil && tree != nil { // applies to the descriptors as they are counted
		work := descriptors.MaxWork
		_, _, entries = tree.MatchHold(domain, entries, &work)
		n.Descriptor = NewDescriptor(domain, entries)
	}
	added, err := d.InForce.Add(ctx, n, peer)
	if err == nil && tree != nil {
		if !tree.HasDomain(domain) {
			added.Note = "no rule has the domain " + descriptors.Spell(limiter.Entry{Key: domain})
			if near := spelling.Nearest(domain, tree.DomainNames()); near != "" {
				added.Note += fmt.Sprintf(", did you mean %s?", descriptors.Spell(limiter.Entry{Key: near}))
			}
		}
	}
	return added, err
}

// Kind is a kind of errors of what operators ask for: their status of HTTP.
type Kind int

// The kinds of errors. Others have the status 500.
const (
	ErrBadRequest   Kind = http.StatusBadRequest          // asking again does not help
	ErrNotFound     Kind = http.StatusNotFound            // such as an exception that is not there
	ErrFull         Kind = http.StatusConflict            // there is no room for another one
	ErrInvalidRules Kind = http.StatusUnprocessableEntity // rules were read and are wrong
	ErrUnavailable  Kind = http.StatusServiceUnavailable  // Redis fails, asking again may help
)

// Error implements error.
func (k Kind) Error() string { return strings.ToLower(http.StatusText(int(k))) }

// Errorf returns an error of a kind: errors.Is(err, kind) holds. Its text is the formatted
// one alone, and what that wraps is wrapped, too.
func Errorf(kind Kind, format string, args ...any) error {
	return kindError{fmt.Errorf(format, args...), kind}
}

type kindError struct {
	error
	kind Kind
}

// Unwrap is for errors.Is and errors.As.
func (e kindError) Unwrap() []error { return []error{e.kind, e.error} }

// ReadJSON reads a text that is one JSON value. A field that the value does not have is an
// error.
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

// Servers is this server among those that share its Redis: it reports to them, and asks them
// for reports. It is safe for concurrent use.
type Servers struct {
	shared Shared
	name   string
	asked  atomic.Int64 // when, in nanoseconds since the epoch
}

// Report is what a server says of itself.
type Report struct {
	Denials Denials           `json:"denials"`
	Uses    map[string]uint64 `json:"uses"` // how often each exception was applied, by its ID
}

// NewServers returns the servers that share a Redis.
func NewServers(shared Shared) *Servers {
	return &Servers{shared: shared, name: rand.Text()}
}

const (
	reportsWanted  = 3 * time.Second         // how long servers report after they were asked
	reportEvery    = 750 * time.Millisecond  // how often this server asks whether a report is wanted
	reportPatience = 1250 * time.Millisecond // how long the first reports are waited for
)

// Run reports what report returns, while somebody wants it, until ctx ends.
func (s *Servers) Run(ctx context.Context, report func() Report) {
	for ctx.Err() == nil {
		if wanted, err := s.shared.ReportsWanted(ctx); err == nil && wanted {
			text, _ := json.Marshal(report())      // which has nothing that JSON has not
			_ = s.shared.Report(ctx, s.name, text) // or the next one
		}
		select {
		case <-time.After(reportEvery):
		case <-ctx.Done():
		}
	}
}

// Reports returns what the other servers report. The first time, it waits for them. It never
// fails for one of them, but if Redis does.
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
		if json.Unmarshal([]byte(text), &report) == nil { // else of a server of another version
			reports = append(reports, report)
		}
	}
	return reports, nil
}
