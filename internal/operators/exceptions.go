package operators

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Exceptions keeps those in force, and ends them. What is added or removed holds in this
// process at once, and in others that share it within a second. While Redis fails, those
// known stay in force.
type Exceptions struct {
	shared  Shared // nil: this server has its own
	logger  *slog.Logger
	current atomic.Pointer[plan.Exceptions] // nil: there are none
	inForce prometheus.Gauge
	used    *prometheus.CounterVec
	errors  prometheus.Counter

	asking  chan struct{}              // holds one while Redis is asked: what is learned comes in order
	texts   map[string]string          // that are shared, as they were last read
	known   map[string]*plan.Exception // by ID, nil: this version cannot read it
	next    time.Time                  // when something is to end, at the latest after forgetAfter
	failing bool
	unread  error          // of an exception that cannot be read, until it is logged
	warn    rate.Sometimes // of unread
}

// NewExceptions returns those of the servers that share them, nil for this server alone. It
// knows of none until it loads.
func NewExceptions(shared Shared, reg prometheus.Registerer, logger *slog.Logger) *Exceptions {
	es := &Exceptions{
		shared: shared, logger: logger, asking: make(chan struct{}, 1), texts: map[string]string{},
		warn:    rate.Sometimes{Interval: time.Minute},
		inForce: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_exceptions", Help: "Exceptions in force."}),
		used: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_exceptions_used_total", Help: "Descriptors to which an exception applied.",
		}, []string{"effect"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_exceptions_load_errors_total", Help: "Failed attempts to load the exceptions that other servers added or removed.",
		}),
	}
	for _, effect := range plan.Effects {
		es.used.WithLabelValues(string(effect))
	}
	reg.MustRegister(es.inForce, es.used, es.errors)
	return es
}

// Current returns where those in force are.
func (es *Exceptions) Current() *atomic.Pointer[plan.Exceptions] { return &es.current }

// All returns those in force, the newest first.
func (es *Exceptions) All() []*plan.Exception { return es.current.Load().All() }

// maxExceptions is how many there may be at a time.
const maxExceptions = 10_000

// Add adds an exception for somebody at the address peer. Its errors are of a Kind.
func (es *Exceptions) Add(ctx context.Context, n NewException, peer string) (Exception, error) {
	e, err := n.check()
	if err != nil {
		return Exception{}, err
	}
	e.ID = strings.ToLower(rand.Text()[:8]) // letters and digits that cannot be taken for each other
	e.Created = time.Now().Round(0).UTC()
	e.Until = e.Created.Add(Seconds(n.For))
	added := exceptionOf(e)
	text, _ := json.Marshal(added) // which has nothing that JSON has not
	return added, es.update(ctx, func(ctx context.Context) error {
		if len(es.All()) >= maxExceptions {
			return Errorf(ErrFull, "there are already %d exceptions, and no more are allowed; remove one first", maxExceptions)
		}
		if err := es.change(ctx, e.ID, string(text)); err != nil {
			return err
		}
		es.logger.LogAttrs(ctx, slog.LevelInfo, "exception added", audited(e, plain("by", e.By), plain("peer", peer))...)
		return nil
	})
}

// Remove ends the exception with id, for by at the address peer. Its errors are of a Kind.
func (es *Exceptions) Remove(ctx context.Context, id, by, peer string) error {
	return es.update(ctx, func(ctx context.Context) error {
		was, known := es.known[id]
		if !known {
			return Errorf(ErrNotFound, "exception %.70q: there is no such exception", id)
		}
		if err := es.change(ctx, id, ""); err != nil {
			return err
		}
		if was == nil {
			was = &plan.Exception{ID: id}
		}
		es.logger.LogAttrs(ctx, slog.LevelInfo, "exception removed", audited(was, plain("by", by), plain("peer", peer), plain("added_by", was.By))...)
		return nil
	})
}

// change sets the text of an exception, or removes it if that is empty.
func (es *Exceptions) change(ctx context.Context, id, text string) (err error) {
	texts := maps.Clone(es.texts)
	if texts[id] = text; text == "" {
		delete(texts, id)
	}
	switch {
	case es.shared == nil:
	case text == "":
		err = es.shared.RemoveExceptions(ctx, id)
	default:
		err = es.shared.SetExceptions(ctx, map[string]string{id: text, markerID: "yes"})
	}
	if err != nil {
		return Errorf(ErrUnavailable, "Redis failed, so the exception may or may not apply: %w", err)
	}
	es.take(texts)
	return nil
}

// update loads what is shared, then calls change. One update runs at a time.
func (es *Exceptions) update(ctx context.Context, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case es.asking <- struct{}{}:
		defer func() { <-es.asking }()
	case <-ctx.Done():
		return Errorf(ErrUnavailable, "Redis failed: %w", context.Cause(ctx))
	}
	if err := es.load(ctx); err != nil {
		return err
	}
	return change(ctx)
}

const (
	patience    = 2 * time.Second // for an answer of Redis
	loadEvery   = time.Second
	forgetAfter = time.Minute // how long one that has ended is shared: the clocks of servers differ
	markerID    = "."         // the ID of a text that is missing only if Redis has lost the exceptions, or had none yet
)

// Run loads what is shared, until ctx ends.
func (es *Exceptions) Run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = es.Load(ctx) // which has logged what is wrong
		wait := loadEvery
		for _, e := range es.All() {
			wait = min(wait, max(time.Until(e.Until), time.Millisecond))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// Load learns what is shared, and ends those whose time is over.
func (es *Exceptions) Load(ctx context.Context) error {
	return es.update(ctx, func(context.Context) error { return nil })
}

// load is Load. es.asking is held.
func (es *Exceptions) load(ctx context.Context) (err error) {
	texts := maps.Clone(es.texts)
	if es.shared != nil {
		texts, err = es.read(ctx)
		switch {
		case err == nil && es.failing:
			es.logger.Info("exceptions can be loaded again")
		case err != nil && !es.failing && !errors.Is(ctx.Err(), context.Canceled):
			es.logger.Warn("exceptions could not be loaded, known ones stay in force", "err", plaintext.Line(err.Error()))
		}
		if es.failing = err != nil; err != nil {
			es.errors.Inc()
			texts, err = maps.Clone(es.texts), Errorf(ErrUnavailable, "Redis failed: %w", err)
		}
	}
	if old := es.take(texts); len(old) > 0 && es.shared != nil {
		_ = es.shared.RemoveExceptions(ctx, old...) // or with the next load
	}
	return err
}

// read returns the shared texts. If Redis lost them, the first server to notice restores those
// that it can read, with those that another server removed less than loadEvery before.
func (es *Exceptions) read(ctx context.Context) (map[string]string, error) {
	texts, err := es.shared.Exceptions(ctx)
	if _, there := texts[markerID]; err == nil && !there {
		lost := maps.Clone(es.texts)
		maps.DeleteFunc(lost, func(id, _ string) bool { return es.known[id] == nil })
		if len(lost) > 0 {
			es.logger.Warn("Redis has lost the exceptions, they are restored", "exceptions", len(lost))
			texts = lost
			texts[markerID] = "yes"
			err = es.shared.SetExceptions(ctx, texts)
		}
	}
	delete(texts, markerID)
	return texts, err
}

// take puts in force what texts say. It keeps texts, deletes those that ended long ago, and
// returns their IDs.
func (es *Exceptions) take(texts map[string]string) (old []string) {
	now := time.Now()
	if maps.Equal(texts, es.texts) && now.Before(es.next) {
		return nil
	}
	for _, e := range es.All() {
		if !e.Until.After(now) {
			es.logger.LogAttrs(context.Background(), slog.LevelInfo, "exception expired", audited(e, plain("by", e.By))...)
		}
	}
	var list []*plan.Exception
	known, next, unread := map[string]*plan.Exception{}, now.Add(forgetAfter), 0
	for id, text := range texts {
		e, same := es.known[id]
		if !same || es.texts[id] != text {
			var err error
			if e, err = readException(id, text); err != nil {
				es.unread = fmt.Errorf("%.70s: %w", id, err)
			} else {
				e.Uses = es.used.WithLabelValues(string(e.Effect))
			}
		}
		known[id] = e
		switch {
		case e == nil:
			unread++
		case e.Until.After(now):
			list = append(list, e)
			if e.Until.Before(next) {
				next = e.Until
			}
		case now.Sub(e.Until) >= forgetAfter:
			old = append(old, id)
			delete(texts, id)
		}
	}
	if es.unread != nil {
		es.warn.Do(func() {
			es.logger.Warn("exceptions are ignored because they cannot be read, a newer version may have added them",
				"exceptions", unread, "err", plaintext.Line(Begin(es.unread.Error(), logText)))
			es.unread = nil
		})
	}
	es.texts, es.known, es.next = texts, known, next
	es.current.Store(plan.NewExceptions(list))
	es.inForce.Set(float64(len(list)))
	return old
}

// audited returns what the audit log says of e, and of who did something with it.
func audited(e *plan.Exception, who ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{
		slog.Bool("audit", true), plain("id", e.ID), plain("domain", e.Domain), plain("descriptor", explain.FormatDescriptor(e.Entries)),
		slog.String("effect", e.What()), slog.Time("until", e.Until), plain("reason", e.Reason),
	}, who...)
}

// plain is a text of others.
func plain(key, value string) slog.Attr { return slog.String(key, plaintext.Line(value)) }

// NewException is an exception from the rules for the descriptors of a domain that begin with
// its entries. It is the body of POST /exceptions.
type NewException struct {
	Descriptor
	Effect plan.Effect `json:"effect"`
	Factor float64     `json:"factor,omitempty"` // of Amount, from 0.001 to 1,000,000
	For    float64     `json:"for,omitempty"`    // seconds
	By     string      `json:"by"`               // who adds it
	Reason string      `json:"reason"`
}

// Exception is an exception that was added.
type Exception struct {
	ID string `json:"id"`
	NewException
	Created time.Time `json:"created"`
	Until   time.Time `json:"until"`
	Used    uint64    `json:"used"`           // how many descriptors it was applied to on the servers that were asked
	Note    string    `json:"note,omitempty"` // of the answer of POST /exceptions alone: why it may not be what was meant
}

// ExceptionList is the answer of GET /exceptions, the newest first.
type ExceptionList struct {
	Exceptions []Exception `json:"exceptions"`
	Servers    int         `json:"servers"` // how many the uses are of
}

// exceptionOf returns an exception as it is answered.
func exceptionOf(e *plan.Exception) Exception {
	return Exception{
		ID: e.ID, Created: e.Created, Until: e.Until, Used: e.Used(),
		NewException: NewException{
			Descriptor: NewDescriptor(e.Domain, e.Entries), Effect: e.Effect, Factor: e.Factor,
			For: e.Until.Sub(e.Created).Seconds(), By: e.By, Reason: e.Reason,
		},
	}
}

// What an exception may be.
const (
	maxEntries = 100 // of a descriptor, as of one of a request
	maxText    = 4 << 10
	maxReason  = 500
	maxBy      = 200
	minFactor  = 0.001
	maxFactor  = 1_000_000
	minFor     = time.Second
	maxFor     = 366 * 24 * time.Hour
)

// check returns the exception, without ID and times, or what is wrong with it.
func (n *NewException) check() (*plan.Exception, error) {
	domain, entries, err := n.Bytes()
	if err != nil {
		return nil, err
	}
	bytes, emptyKey := len(domain), false
	for _, e := range entries {
		bytes += len(e.Key) + len(e.Value)
		emptyKey = emptyKey || e.Key == ""
	}
	lasts, wrong := Seconds(n.For), ""
	switch {
	case domain == "":
		wrong = "the domain is empty"
	case len(entries) == 0:
		wrong = "it has no entries, at least one is required"
	case emptyKey:
		wrong = "the key of an entry is empty"
	case len(entries) > maxEntries:
		wrong = fmt.Sprintf("it has %d entries, at most %d are allowed", len(entries), maxEntries)
	case bytes > maxText:
		wrong = fmt.Sprintf("domain and entries have %d bytes, at most %d are allowed", bytes, maxText)
	case !slices.Contains(plan.Effects, n.Effect):
		wrong = fmt.Sprintf("undefined effect %.40q; use one of %s, %s, %s", n.Effect, plan.Allow, plan.Deny, plan.Amount)
	case n.Effect == plan.Amount && !(n.Factor >= minFactor && n.Factor <= maxFactor):
		wrong = fmt.Sprintf("a factor of %v is not allowed; use %v to %d", n.Factor, minFactor, maxFactor)
	case n.Effect != plan.Amount && n.Factor != 0:
		wrong = fmt.Sprintf("a factor applies to the effect %s only", plan.Amount)
	case lasts < minFor || lasts > maxFor:
		wrong = fmt.Sprintf("a duration of %v is not allowed; use 1 second to 366 days", lasts)
	case strings.TrimSpace(n.Reason) == "":
		wrong = "a reason is required"
	case len(n.Reason) > maxReason:
		wrong = fmt.Sprintf("the reason has %d bytes, at most %d are allowed", len(n.Reason), maxReason)
	case len(n.By) > maxBy:
		wrong = fmt.Sprintf("by has %d bytes, at most %d are allowed", len(n.By), maxBy)
	}
	if wrong != "" {
		return nil, Errorf(ErrBadRequest, "invalid exception: %s", wrong)
	}
	return &plan.Exception{Domain: domain, Entries: entries, Effect: n.Effect, Factor: n.Factor, By: n.By, Reason: n.Reason}, nil
}

// readException returns the exception that servers share as JSON, or why this version cannot
// read it. One with a field that it does not know may be for fewer, or do something else.
func readException(id, text string) (*plan.Exception, error) {
	var x Exception
	if err := ReadJSON([]byte(text), &x); err != nil {
		return nil, err
	}
	e, err := x.check()
	if err == nil {
		e.ID, e.Created, e.Until = id, x.Created, x.Until
	}
	return e, err
}
