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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// The effects of exceptions.
const (
	Allow  = string(plan.Allow)  // no limit holds
	Deny   = string(plan.Deny)   // every request is denied
	Amount = string(plan.Amount) // the amounts of all limits are multiplied by Factor
)

// Exception is an exception from the rules for the descriptors of a domain that begin with
// its entries.
type Exception struct {
	ID string `json:"id"`
	Descriptor
	Effect  string    `json:"effect"`
	Factor  float64   `json:"factor,omitempty"` // of Amount, from 0.001 to 1,000,000
	Created time.Time `json:"created"`
	Until   time.Time `json:"until"`
	By      string    `json:"by"`     // who added it
	Reason  string    `json:"reason"` // as given by who added it
	// Used is how many descriptors it was applied to on the servers that were asked.
	Used uint64 `json:"used"`
	// Note is of the answer of POST /exceptions alone: why it may not be what was meant.
	Note string `json:"note,omitempty"`
}

// NewException is the body of POST /exceptions, whose answer is the Exception.
type NewException struct {
	Descriptor
	Effect string  `json:"effect"`
	Factor float64 `json:"factor,omitempty"`
	For    float64 `json:"for"` // seconds
	By     string  `json:"by"`
	Reason string  `json:"reason"`
}

// ExceptionList is the answer of GET /exceptions, the newest first.
type ExceptionList struct {
	Exceptions []Exception `json:"exceptions"`
	// Servers is how many servers the uses are of.
	Servers int `json:"servers"`
}

// exceptionOf returns an exception as it is answered.
func exceptionOf(e *plan.Exception) Exception {
	return Exception{
		ID: e.ID, Descriptor: NewDescriptor(e.Domain, e.Entries), Effect: string(e.Effect), Factor: e.Factor,
		Created: e.Created, Until: e.Until, By: e.By, Reason: e.Reason, Used: e.Used(),
	}
}

// What an exception may be.
const (
	maxExceptions = 10_000 // at a time
	maxEntries    = 100    // of a descriptor, as of one of a request
	maxText       = 4 << 10
	maxReason     = 500
	maxBy         = 200
	minFactor     = 0.001
	maxFactor     = 1_000_000
	minFor        = time.Second
	maxFor        = 366 * 24 * time.Hour
)

// exception returns what is asked for, or what is wrong with it.
func (n *NewException) exception() (Exception, error) {
	domain, entries, err := n.Bytes()
	if err != nil {
		return Exception{}, err
	}
	bad := func(format string, args ...any) (Exception, error) {
		return Exception{}, Errorf(ErrBadRequest, "invalid exception: %s", fmt.Sprintf(format, args...))
	}
	bytes := len(domain)
	for i, e := range entries {
		if e.Key == "" {
			return bad("the key of entry %d is empty", i)
		}
		bytes += len(e.Key) + len(e.Value)
	}
	effect, seconds := plan.Effect(n.Effect), min(max(n.For, 0), 2*maxFor.Seconds())
	lasts := time.Duration(seconds * float64(time.Second))
	switch {
	case domain == "":
		return bad("the domain is empty")
	case len(entries) == 0:
		return bad("it has no entries, at least one is required")
	case len(entries) > maxEntries:
		return bad("it has %d entries, at most %d are allowed", len(entries), maxEntries)
	case bytes > maxText:
		return bad("domain and entries have %d bytes, at most %d are allowed", bytes, maxText)
	case !slices.Contains(plan.Effects, effect):
		return bad("undefined effect %.40q; use one of %s, %s, %s", n.Effect, plan.Allow, plan.Deny, plan.Amount)
	case effect == plan.Amount && !(n.Factor >= minFactor && n.Factor <= maxFactor):
		return bad("a factor of %v is not allowed; use %v to %d", n.Factor, minFactor, maxFactor)
	case effect != plan.Amount && n.Factor != 0:
		return bad("a factor applies to the effect %s only", plan.Amount)
	case lasts < minFor || lasts > maxFor:
		return bad("a duration of %v is not allowed; use 1 second to 366 days", lasts)
	case strings.TrimSpace(n.Reason) == "":
		return bad("a reason is required")
	case len(n.Reason) > maxReason:
		return bad("the reason has %d bytes, at most %d are allowed", len(n.Reason), maxReason)
	case len(n.By) > maxBy:
		return bad("by has %d bytes, at most %d are allowed", len(n.By), maxBy)
	}
	now := time.Now().Round(0).UTC()
	return Exception{
		ID:         strings.ToLower(rand.Text()[:8]), // letters and digits that cannot be taken for each other
		Descriptor: NewDescriptor(domain, entries), Effect: n.Effect, Factor: n.Factor, Created: now, Until: now.Add(lasts), By: n.By, Reason: n.Reason,
	}, nil
}

// exceptionFormat is that of the records which this version can read. One that says more of
// whom an exception is for, or what it does, needs another number: a version that applied it
// without knowing that would apply it to too many.
const exceptionFormat = 2

// record is an exception as the servers share it, with what this version reads in it.
type record struct {
	text            string // a sharedException in JSON
	*plan.Exception        // nil: this version cannot read it
	ended           bool   // its time is over, and shared may still have it
}

// holds reports whether it is in force.
func (r *record) holds() bool { return r.Exception != nil && !r.ended }

// sharedException is what the servers share of an exception.
type sharedException struct {
	Format int `json:"format"`
	Exception
}

// readException returns the exception with id, or why this version cannot read it.
func readException(id, text string) (*plan.Exception, error) {
	var r sharedException
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, err
	}
	domain, entries, err := r.Bytes()
	e := &plan.Exception{
		ID: id, Domain: domain, Entries: entries, Effect: plan.Effect(r.Effect), Factor: r.Factor,
		Created: r.Created, Until: r.Until, By: r.By, Reason: r.Reason,
	}
	switch {
	case r.Format != exceptionFormat:
		return nil, fmt.Errorf("it has format %d, and this version reads format %d", r.Format, exceptionFormat)
	case err != nil:
		return nil, err
	case !slices.Contains(plan.Effects, e.Effect):
		return nil, fmt.Errorf("undefined effect %.40q", e.Effect)
	case e.Effect == plan.Amount && !(e.Factor >= minFactor && e.Factor <= maxFactor):
		return nil, fmt.Errorf("undefined factor %v", e.Factor)
	case domain == "" || len(e.Entries) == 0 || e.Until.IsZero():
		return nil, fmt.Errorf("its domain, its entries or its end are missing")
	}
	return e, nil
}

// Exceptions keeps those in force, and ends them. What is added or removed holds in this
// process at once, and in others that share it after their next Load. While that fails,
// those known stay in force.
type Exceptions struct {
	shared limiter.Shared // nil: this server has its own
	logger *slog.Logger

	current atomic.Pointer[plan.Exceptions] // nil: there are none
	inForce prometheus.Gauge
	used    *prometheus.CounterVec
	errors  prometheus.Counter

	asking  chan struct{} // holds one while shared is asked: what is learned comes in order
	version map[string]string
	failing bool

	mu    sync.Mutex // never held while shared is asked
	known map[string]*record
	timer *time.Timer // for the end of the next
}

// NewExceptions returns those of the servers that share them, nil for this server alone. It
// knows of none until it loads.
func NewExceptions(shared limiter.Shared, reg prometheus.Registerer, logger *slog.Logger) *Exceptions {
	es := &Exceptions{
		shared: shared, logger: logger, asking: make(chan struct{}, 1),
		known:   map[string]*record{},
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

// Add adds an exception for somebody at the address peer. Its errors are of a Kind.
func (es *Exceptions) Add(ctx context.Context, n NewException, peer string) (added Exception, err error) {
	x, err := n.exception()
	if err != nil {
		return added, err
	}
	text, _ := json.Marshal(sharedException{exceptionFormat, x}) // which has nothing that JSON has not
	err = es.ask(ctx, func(ctx context.Context) error {
		if err := es.load(ctx); err != nil {
			return err
		}
		if len(es.All()) >= maxExceptions {
			return Errorf(ErrFull, "there are already %d exceptions, and no more are allowed; remove one first", maxExceptions)
		}
		if es.shared == nil {
			return nil
		}
		_, err := es.shared.Set(ctx, exceptionsHash, map[string]string{x.ID: string(text)})
		return err
	})
	if err != nil {
		return added, err
	}
	es.mu.Lock()
	r := es.read(x.ID, string(text))
	es.known[x.ID] = r
	es.rebuild()
	es.mu.Unlock()
	es.logger.LogAttrs(ctx, slog.LevelInfo, "exception added", audited(r.Exception, plain("by", x.By), plain("peer", peer))...)
	return exceptionOf(r.Exception), nil
}

// Remove ends the exception with id, for by at the address peer. Its errors are of a Kind.
func (es *Exceptions) Remove(ctx context.Context, id, by, peer string) error {
	var was *plan.Exception
	err := es.ask(ctx, func(ctx context.Context) (err error) {
		there := 0
		if isID(id) {
			err = es.load(ctx) // what it was, for the audit log
			if err == nil && es.shared != nil {
				there, err = es.shared.Set(ctx, exceptionsHash, map[string]string{id: ""})
			}
		}
		if err != nil {
			return err
		}
		es.mu.Lock()
		defer es.mu.Unlock()
		if r := es.known[id]; r != nil && r.holds() {
			was = r.Exception
		}
		delete(es.known, id)
		es.rebuild()
		if was == nil && there == 0 {
			return Errorf(ErrNotFound, "there is no such exception")
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("exception %.70q: %w", id, err)
	case was == nil: // this version cannot read it
		es.logger.Info("exception removed", "audit", true, "id", plaintext.Line(id), "by", plaintext.Line(by), "peer", plaintext.Line(peer))
	default:
		es.logger.LogAttrs(ctx, slog.LevelInfo, "exception removed", audited(was, plain("by", by), plain("peer", peer), plain("added_by", was.By))...)
	}
	return nil
}

// isID reports whether id may be that of an exception, and so a field beside the version.
func isID(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// patience bounds how long shared may take for a call.
const patience = 2 * time.Second

// exceptionsHash has each exception by its ID.
const exceptionsHash = "exceptions"

const storeFailed = "Redis failed, so the exception may or may not apply: %w"

// ask asks shared as nobody else does meanwhile. Its errors are of a Kind.
func (es *Exceptions) ask(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case es.asking <- struct{}{}:
		defer func() { <-es.asking }()
		err := do(ctx)
		if _, known := errors.AsType[Kind](err); err == nil || known {
			return err
		}
		return Errorf(ErrUnavailable, storeFailed, err)
	case <-ctx.Done():
		return Errorf(ErrUnavailable, "Redis failed: %w", context.Cause(ctx))
	}
}

// Load learns what is shared.
func (es *Exceptions) Load(ctx context.Context) error {
	return es.ask(ctx, func(ctx context.Context) error {
		err := es.load(ctx)
		switch {
		case err != nil && !es.failing && ctx.Err() != context.Canceled:
			es.logger.Warn("exceptions could not be loaded, known ones stay in force", "err", plaintext.Line(err.Error()))
		case err == nil && es.failing:
			es.logger.Info("exceptions can be loaded again")
		}
		if es.failing = err != nil; !es.failing {
			es.forget(ctx)
		}
		return err
	})
}

// load is Load for a caller of ask.
func (es *Exceptions) load(ctx context.Context) error {
	if es.shared == nil {
		return nil
	}
	version, err := es.shared.Fields(ctx, exceptionsHash, ".epoch", ".count")
	if err == nil && (!maps.Equal(version, es.version) || es.hasLost(version)) {
		var stored map[string]string
		if stored, err = es.shared.Fields(ctx, exceptionsHash); err == nil {
			err = es.take(ctx, stored)
		}
	}
	if err != nil {
		es.errors.Inc()
		return Errorf(ErrUnavailable, storeFailed, err)
	}
	return nil
}

// hasLost reports whether what is shared is no longer, or not yet again, what was known:
// Redis began empty, or as it was earlier.
func (es *Exceptions) hasLost(version map[string]string) bool {
	if len(es.All()) == 0 {
		return false
	}
	epoch, was := version[".epoch"], es.version[".epoch"]
	now, _ := strconv.ParseUint(version[".count"], 10, 64)
	before, _ := strconv.ParseUint(es.version[".count"], 10, 64)
	return epoch == "" || was != "" && (epoch != was || now < before)
}

// take makes known what is stored, and puts back there what was lost.
func (es *Exceptions) take(ctx context.Context, stored map[string]string) error {
	version := map[string]string{".epoch": stored[".epoch"], ".count": stored[".count"]}
	maps.DeleteFunc(version, func(_, text string) bool { return text == "" })
	maps.DeleteFunc(stored, func(id, _ string) bool { return !isID(id) })
	if es.hasLost(version) {
		lost := map[string]string{}
		es.mu.Lock()
		for id, r := range es.known {
			if !r.ended && stored[id] == "" {
				lost[id] = r.text
			}
		}
		es.mu.Unlock()
		if len(lost) > 0 {
			es.logger.Warn("Redis has lost exceptions, they are restored", "exceptions", len(lost))
			if _, err := es.shared.Set(ctx, exceptionsHash, lost); err != nil {
				return err
			}
			maps.Copy(stored, lost)
		}
	}
	es.version = version
	es.mu.Lock()
	defer es.mu.Unlock()
	before := es.known
	es.known = make(map[string]*record, len(stored))
	for id, text := range stored {
		r := before[id] // with its uses
		if r == nil || r.text != text {
			r = es.read(id, text)
		}
		es.known[id] = r
	}
	es.rebuild()
	return nil
}

// read reads a record, and logs why it cannot be read.
func (es *Exceptions) read(id, text string) *record {
	e, err := readException(id, text)
	if err != nil {
		es.logger.Warn("an exception is ignored because it cannot be read, a newer version may have added it", "id", plaintext.Line(id), "err", plaintext.Line(err.Error()))
		return &record{text: text}
	}
	e.Uses = es.used.WithLabelValues(string(e.Effect))
	return &record{text: text, Exception: e, ended: !e.Until.After(time.Now())}
}

// lookAgain is when to look for what has ended although nothing should: clocks may be set.
const lookAgain = time.Minute

// rebuild puts what is known in force until the next one ends. The caller holds es.mu.
func (es *Exceptions) rebuild() {
	if es.timer != nil {
		es.timer.Stop()
	}
	next := time.Now().Add(lookAgain)
	var list []*plan.Exception
	for _, r := range es.known {
		if r.holds() {
			list = append(list, r.Exception)
			if r.Until.Before(next) {
				next = r.Until
			}
		}
	}
	if len(list) > 0 {
		es.timer = time.AfterFunc(time.Until(next), es.end)
	}
	es.current.Store(plan.NewExceptions(list))
	es.inForce.Set(float64(len(list)))
}

// end ends those whose time is over.
func (es *Exceptions) end() {
	now := time.Now()
	es.mu.Lock()
	defer es.mu.Unlock()
	for id, r := range es.known {
		if r.holds() && !r.Until.After(now) {
			if r.ended = true; es.shared == nil {
				delete(es.known, id)
			}
			es.logger.LogAttrs(context.Background(), slog.LevelInfo, "exception expired", audited(r.Exception, plain("by", r.By))...)
		}
	}
	es.rebuild()
}

// forgetAfter is how long shared has what has ended: the clocks of servers differ.
const forgetAfter = time.Minute

// forget removes what ended that long ago. The next call tries again if this one fails.
func (es *Exceptions) forget(ctx context.Context) {
	var ids []string
	es.mu.Lock()
	for id, r := range es.known {
		if r.ended && time.Since(r.Until) >= forgetAfter {
			ids = append(ids, id)
		}
	}
	es.mu.Unlock()
	if len(ids) == 0 || es.shared.Remove(ctx, exceptionsHash, ids...) != nil {
		return
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, id := range ids {
		delete(es.known, id)
	}
}

// audited returns what the audit log says of e, and of who did something with it.
func audited(e *plan.Exception, who ...slog.Attr) []slog.Attr {
	words := make([]string, len(e.Entries))
	for i, entry := range e.Entries {
		words[i] = entry.Key + "=" + entry.Value
	}
	return append([]slog.Attr{
		slog.Bool("audit", true), plain("id", e.ID), plain("domain", e.Domain), plain("descriptor", strings.Join(words, ",")),
		slog.String("effect", e.What()), slog.Time("until", e.Until), plain("reason", e.Reason),
	}, who...)
}

// plain is a text of others.
func plain(key, value string) slog.Attr { return slog.String(key, plaintext.Line(value)) }
