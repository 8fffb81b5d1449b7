package operators

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// ExceptionStore keeps the exceptions in force until they expire. An added or removed exception takes
// effect on this server immediately, and on the servers that share the exceptions within a second.
// While Redis fails, the known exceptions stay in force. An ExceptionStore is safe for concurrent use.
type ExceptionStore struct {
	// Current has the exceptions in force for requests to read, or nil if there are none.
	Current atomic.Pointer[plan.Exceptions]

	feed
	inForce prometheus.Gauge
	used    *prometheus.CounterVec
	errors  prometheus.Counter

	updating chan struct{}                 // has an element during an update; guards the fields below
	known    map[[2]string]*plan.Exception // exceptions by ID and text; a value is nil if this version cannot read the text
	next     time.Time                     // time of the next expiry, at most forgetAfter ahead
	failing  bool                          // the last load failed
	unread   error                         // why an exception cannot be read, or nil once that is logged
	warn     rate.Sometimes                // limits how often unread is logged
}

// NewExceptionStore returns a store for the exceptions of all servers that use shared, or of this server
// alone if shared is nil. The store has no exceptions until Load or Run reads them.
func NewExceptionStore(shared EntryStore, reg prometheus.Registerer, logger *slog.Logger) *ExceptionStore {
	es := &ExceptionStore{
		feed: feed{entries: shared, logger: logger}, updating: make(chan struct{}, 1), known: map[[2]string]*plan.Exception{},
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

// Assigned returns the set that contains the assigned amounts.
func (es *ExceptionStore) Assigned() *plan.SharedSet { return &es.set }

// All returns the exceptions in force, the newest first.
func (es *ExceptionStore) All() []*plan.Exception { return es.Current.Load().All() }

// MaxExceptions is the maximum number of exceptions in force.
const MaxExceptions = 10_000

// Add adds an exception for the operator with the address peer, and logs it. Its errors wrap a Kind.
func (es *ExceptionStore) Add(ctx context.Context, e plan.Exception, peer string) (plan.Exception, error) {
	if err := check(&e); err != nil {
		return e, err
	}
	e.ID, e.Used = strings.ToLower(rand.Text()[:8]), new(uint64) // no letters that look like digits
	e.Created = time.Now().Round(0).UTC()
	e.Until = e.Created.Add(Seconds(e.For))
	text, _ := json.Marshal(e) // cannot fail: check has bounded the factor
	return e, es.updateExceptions(ctx, func(ctx context.Context) error {
		if len(es.All()) >= MaxExceptions {
			return Errorf(ErrFull, "there are already %d exceptions, and no more are allowed; remove one first", MaxExceptions)
		}
		if err := es.put(ctx, [2]string{e.ID, string(text)}); err != nil {
			return err
		}
		es.logger.LogAttrs(ctx, slog.LevelInfo, "exception added", audited(&e, plain("by", e.By), plain("peer", peer))...)
		return nil
	})
}

// Remove removes the exception with the given ID, and logs the removal. The parameters by and peer are the
// name and the address of the person who removes it. Its errors wrap a Kind.
func (es *ExceptionStore) Remove(ctx context.Context, id, by, peer string) error {
	return es.updateExceptions(ctx, func(ctx context.Context) error {
		text := es.set.Text(0, id)
		if text == "" {
			return Errorf(ErrNotFound, "exception %.70q: there is no such exception", id)
		}
		if err := es.put(ctx, [2]string{id}); err != nil {
			return err
		}
		was := cmp.Or(es.known[[2]string{id, text}], &plan.Exception{ID: id})
		es.logger.LogAttrs(ctx, slog.LevelInfo, "exception removed", audited(was, plain("by", by), plain("peer", peer), plain("added_by", was.By))...)
		return nil
	})
}

// put sets the texts of exceptions by ID, and removes each exception whose new text is empty.
func (es *ExceptionStore) put(ctx context.Context, texts ...[2]string) error {
	err := es.change(ctx, 0, func() [][2]string { return slices.Clone(texts) })
	es.take()
	return err
}

// updateExceptions is like update, but first reads the changes that other servers have made to exceptions.
func (es *ExceptionStore) updateExceptions(ctx context.Context, change func(context.Context) error) error {
	return es.update(ctx, func(ctx context.Context) error {
		if err := es.refresh(ctx, 0); err != nil {
			return Errorf(ErrUnavailable, "Redis failed: %w", err)
		}
		es.take()
		return change(ctx)
	})
}

// update calls change. Only one update runs at a time; update fails if it has to wait longer than patience.
func (es *ExceptionStore) update(ctx context.Context, change func(context.Context) error) error {
	select {
	case es.updating <- struct{}{}:
		defer func() { <-es.updating }()
	case <-time.After(patience):
		return Errorf(ErrUnavailable, "Redis failed or the first changes are still being read: %w", context.DeadlineExceeded)
	case <-ctx.Done():
		return Errorf(ErrUnavailable, "Redis failed: %w", context.Cause(ctx))
	}
	return change(ctx)
}

const (
	patience    = 2 * time.Second // maximum time to wait for an answer from Redis
	loadEvery   = time.Second
	forgetAfter = time.Minute // how long Redis keeps an expired exception, because servers' clocks differ
	markerID    = "."         // ID of a text in every part, missing only if Redis lost the part
)

// Run loads the shared entries every second, and at each expiry of an exception, until ctx ends. It calls
// loaded after the first successful load.
func (es *ExceptionStore) Run(ctx context.Context, loaded func()) {
	first := sync.OnceFunc(loaded)
	for ctx.Err() == nil {
		if es.Load(ctx) == nil { // Load logs its errors
			first()
		}
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

// Load reads the shared exceptions and assigned amounts, and removes expired exceptions. If Redis fails,
// Load returns an ErrUnavailable, and the known exceptions stay in force.
func (es *ExceptionStore) Load(ctx context.Context) error {
	return es.update(ctx, es.load)
}

func (es *ExceptionStore) load(ctx context.Context) error {
	err := es.feed.load(ctx)
	switch {
	case err == nil && es.failing:
		es.logger.Info("exceptions can be loaded again")
	case err != nil && !es.failing && !errors.Is(ctx.Err(), context.Canceled):
		es.logger.Warn("exceptions could not be loaded, known ones stay in force", "err", plaintext.Line(err.Error()))
	}
	if es.failing = err != nil; err != nil {
		es.errors.Inc()
		err = Errorf(ErrUnavailable, "Redis failed: %w", err)
	}
	for some := range slices.Chunk(es.take(), atOnce) {
		if err != nil || es.put(ctx, some...) != nil {
			break // the next load tries again
		}
	}
	return err
}

// take puts in force the exceptions whose texts are in es.set. It returns the changes with which put removes
// the exceptions that expired at least forgetAfter ago.
func (es *ExceptionStore) take() (old [][2]string) {
	now := time.Now()
	if !es.changed && now.Before(es.next) {
		return nil
	}
	for _, e := range es.All() {
		if !e.Until.After(now) {
			es.logger.LogAttrs(context.Background(), slog.LevelInfo, "exception expired", audited(e, plain("by", e.By))...)
		}
	}
	maps.DeleteFunc(es.known, func(of [2]string, _ *plan.Exception) bool { return es.set.Text(0, of[0]) != of[1] })
	var list []*plan.Exception
	next, unread := now.Add(forgetAfter), 0
	for id, text := range es.set.All(0) {
		e, known := es.known[[2]string{id, text}]
		if !known {
			var err error
			if e, err = readException(id, text); err != nil {
				e, es.unread = nil, fmt.Errorf("%.70s: %w", id, err)
			} else {
				e.Uses = es.used.WithLabelValues(string(e.Effect))
			}
			es.known[[2]string{id, text}] = e
		}
		switch {
		case e == nil:
			unread++
		case e.Until.After(now):
			list = append(list, e)
			if e.Until.Before(next) {
				next = e.Until
			}
		case now.Sub(e.Until) >= forgetAfter:
			old = append(old, [2]string{id})
		}
	}
	if es.unread != nil {
		es.warn.Do(func() {
			es.logger.Warn("exceptions are ignored because they cannot be read, a newer version may have added them",
				"exceptions", unread, "err", plaintext.Line(Begin(es.unread.Error(), logText)))
			es.unread = nil
		})
	}
	es.changed, es.next = false, next
	es.Current.Store(plan.NewExceptions(list))
	es.inForce.Set(float64(len(list)))
	return old
}

// audited returns the fields of the audit log for e, followed by the fields in who.
func audited(e *plan.Exception, who ...slog.Attr) []slog.Attr {
	domain, entries := e.Bytes()
	return append([]slog.Attr{
		slog.Bool("audit", true), plain("id", e.ID), plain("domain", domain), plain("descriptor", explain.FormatDescriptor(entries)),
		slog.String("effect", e.What()), slog.Time("until", e.Until), plain("reason", e.Reason),
	}, who...)
}

// plain returns a field of the log with an untrusted value, whose control characters it escapes.
func plain(key, value string) slog.Attr { return slog.String(key, plaintext.Line(value)) }

// ExceptionList is the response to GET /exceptions, the newest exception first.
type ExceptionList struct {
	Exceptions []plan.Exception `json:"exceptions"`
	Servers    int              `json:"servers"` // number of servers that counted the uses
}

// Bounds of exceptions. Sizes are in bytes.
const (
	maxText   = 4 << 10
	maxReason = 500
	maxBy     = 200
	minFactor = 0.001
	maxFactor = 1_000_000
	minFor    = time.Second
	maxFor    = 366 * 24 * time.Hour
)

// check returns an ErrBadRequest with the reason if a field of e that people set is invalid.
func check(e *plan.Exception) error {
	domain, entries := e.Bytes()
	bytes, emptyKey := len(domain), false
	for _, entry := range entries {
		bytes += len(entry.Key) + len(entry.Value)
		emptyKey = emptyKey || entry.Key == ""
	}
	lasts, invalid := Seconds(e.For), ""
	switch {
	case domain == "":
		invalid = "the domain is empty"
	case len(entries) == 0:
		invalid = "it has no entries, at least one is required"
	case emptyKey:
		invalid = "the key of an entry is empty"
	case len(entries) > plan.MaxEntries:
		invalid = fmt.Sprintf("it has %d entries, at most %d are allowed", len(entries), plan.MaxEntries)
	case bytes > maxText:
		invalid = fmt.Sprintf("domain and entries have %d bytes, at most %d are allowed", bytes, maxText)
	case !slices.Contains(plan.Effects, e.Effect):
		invalid = fmt.Sprintf("undefined effect %.40q; use one of %s, %s, %s", e.Effect, plan.Allow, plan.Deny, plan.Amount)
	case e.Effect == plan.Amount && !(e.Factor >= minFactor && e.Factor <= maxFactor):
		invalid = fmt.Sprintf("a factor of %v is not allowed; use %v to %d", e.Factor, minFactor, maxFactor)
	case e.Effect != plan.Amount && e.Factor != 0:
		invalid = fmt.Sprintf("a factor applies to the effect %s only", plan.Amount)
	case lasts < minFor || lasts > maxFor:
		invalid = fmt.Sprintf("a duration of %v is not allowed; use 1 second to 366 days", lasts)
	case strings.TrimSpace(e.Reason) == "":
		invalid = "a reason is required"
	case len(e.Reason) > maxReason:
		invalid = fmt.Sprintf("the reason has %d bytes, at most %d are allowed", len(e.Reason), maxReason)
	case len(e.By) > maxBy:
		invalid = fmt.Sprintf("by has %d bytes, at most %d are allowed", len(e.By), maxBy)
	}
	if invalid != "" {
		return Errorf(ErrBadRequest, "invalid exception: %s", invalid)
	}
	return nil
}

// readException decodes a shared exception. It fails if text is invalid or has an unknown field, which may
// mean that the exception applies to fewer descriptors or has another effect.
func readException(id, text string) (*plan.Exception, error) {
	e := new(plan.Exception)
	err := cmp.Or(ReadJSON([]byte(text), e), check(e))
	e.ID = id
	return e, err
}
