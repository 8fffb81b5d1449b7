package exceptions

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// Errors of a Keeper, beside ErrBad and ErrFull.
var (
	// ErrNotFound means that there is no exception with the ID.
	ErrNotFound = errors.New("there is no such exception")
	// ErrStore means that the store failed, with its error. What was asked for may have
	// been done nevertheless.
	ErrStore = errors.New("the store of exceptions failed")
)

// Options say what a Keeper works with.
type Options struct {
	Store      Store
	Registerer prometheus.Registerer
	Logger     *slog.Logger // the audit log is part of it
}

// Keeper has the exceptions in force. What is added or removed holds in this process at
// once, and in others that run on the same Store within a second.
type Keeper struct {
	opts    Options
	metrics *metrics
	current atomic.Pointer[plan.Exceptions] // nil: there are none
	changed chan struct{}                   // of known, for Run

	storing chan struct{} // holds one while the store is asked: what is learned comes in order
	version Version       // of what was loaded last
	failing bool          // the last load failed

	mu    sync.Mutex           // never held while the store is asked
	known map[string]*kept     // by ID
	ended map[string]time.Time // IDs of those that have ended, and when, as long as the store has them
}

// kept is a record that is known.
type kept struct {
	Record
	*plan.Exception // nil: a newer version wrote it
}

// NewKeeper returns a Keeper that knows of no exceptions until it is run or loads.
func NewKeeper(opts Options) *Keeper {
	return &Keeper{
		opts: opts, metrics: newMetrics(opts.Registerer), changed: make(chan struct{}, 1), storing: make(chan struct{}, 1),
		known: map[string]*kept{}, ended: map[string]time.Time{},
	}
}

// Current returns where the set in force is: nil if there are no exceptions.
func (k *Keeper) Current() *atomic.Pointer[plan.Exceptions] { return &k.current }

// All returns the exceptions in force, the newest first.
func (k *Keeper) All() []*plan.Exception { return k.current.Load().All() }

// Find returns the exception that applies to a descriptor, nil if none does.
func (k *Keeper) Find(domain string, entries []limiter.Entry) *plan.Exception {
	return k.current.Load().Find(domain, entries)
}

// patience bounds how long the store may take for a call.
const patience = 2 * time.Second

// Add adds n, for somebody at the address peer. The error wraps ErrBad, ErrFull or
// ErrStore.
func (k *Keeper) Add(ctx context.Context, n New, peer string) (*plan.Exception, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	now := time.Now().Round(0).UTC()
	e := &plan.Exception{
		ID: newID(), Domain: n.Domain, Entries: n.Entries, Effect: plan.Effect(n.Effect), Factor: n.Factor,
		Created: now, Until: now.Add(n.For), By: n.By, Reason: n.Reason,
	}
	r, err := newRecord(e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBad, err)
	}
	ctx, done, err := k.store(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err = k.opts.Store.Add(ctx, r, Most); errors.Is(err, ErrFull) && k.forget(ctx, 0) > 0 {
		err = k.opts.Store.Add(ctx, r, Most)
	}
	switch {
	case errors.Is(err, ErrFull):
		return nil, fmt.Errorf("%w: %d, remove one first", ErrFull, Most)
	case err != nil:
		return nil, fmt.Errorf("%w, the exception may hold or not: %w", ErrStore, err)
	}
	k.mu.Lock()
	k.keep(r, e)
	k.rebuild()
	k.mu.Unlock()
	k.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "exception added", audited(e, plain("by", e.By), plain("peer", peer))...)
	_ = k.load(ctx) // the version, so that a loss from now on is noticed
	return e, nil
}

// newID returns an ID of letters and digits that cannot be taken for each other.
func newID() string { return strings.ToLower(rand.Text()[:8]) }

// Remove ends the exception with id, for by at the address peer. The error wraps
// ErrNotFound or ErrStore.
func (k *Keeper) Remove(ctx context.Context, id, by, peer string) error {
	if !isID(id) {
		return ErrNotFound
	}
	ctx, done, err := k.store(ctx)
	if err != nil {
		return err
	}
	defer done()
	_ = k.load(ctx) // what it was, for the audit log
	found, err := k.opts.Store.Remove(ctx, id)
	if err != nil {
		return fmt.Errorf("%w, the exception may hold or not: %w", ErrStore, err)
	}
	k.mu.Lock()
	was := k.known[id]
	delete(k.known, id)
	k.rebuild()
	k.mu.Unlock()
	switch {
	case was == nil && !found:
		return ErrNotFound
	case was == nil || was.Exception == nil:
		k.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "exception removed", slog.Bool("audit", true), plain("id", id), plain("by", by), plain("peer", peer))
	default:
		k.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "exception removed", audited(was.Exception, plain("by", by), plain("peer", peer), plain("added_by", was.By))...)
	}
	_ = k.load(ctx) // the version
	return nil
}

// store waits until nobody else asks the store, and returns the context in which to ask
// it, and what to call after that.
func (k *Keeper) store(ctx context.Context) (_ context.Context, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	select {
	case k.storing <- struct{}{}:
		return ctx, func() { cancel(); <-k.storing }, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, fmt.Errorf("%w: %w", ErrStore, context.Cause(ctx))
	}
}

// isID reports whether id may be one of a Store.
func isID(id string) bool {
	other := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	return len(id) >= 1 && len(id) <= 64 && !strings.ContainsFunc(id, other)
}

// keep makes a record known, as e or, where that is nil, as one that cannot be read. The
// caller holds k.mu.
func (k *Keeper) keep(r Record, e *plan.Exception) {
	if e != nil {
		e.Uses = k.metrics.used.WithLabelValues(string(e.Effect))
	}
	k.known[r.ID] = &kept{r, e}
}

// rebuild puts what is known in force. The caller holds k.mu.
func (k *Keeper) rebuild() {
	all := make([]*plan.Exception, 0, len(k.known))
	for _, known := range k.known {
		if known.Exception != nil {
			all = append(all, known.Exception)
		}
	}
	k.current.Store(plan.NewExceptions(all))
	k.metrics.inForce.Set(float64(len(all)))
	select {
	case k.changed <- struct{}{}:
	default: // Run will see it
	}
}

// Run keeps the exceptions up to date until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var loads sync.WaitGroup
	loads.Go(func() { k.runLoads(ctx) })
	defer loads.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		case <-timer.C:
		}
		timer.Reset(k.end(ctx, time.Now()))
	}
}

// lookAgain is when to look again for what has ended although nothing should: clocks may
// be set.
const lookAgain = time.Minute

// end ends the exceptions whose time is over, and returns in which time to look again.
func (k *Keeper) end(ctx context.Context, now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	next, over := lookAgain, false
	for id, known := range k.known {
		if known.Exception == nil {
			continue
		}
		if left := known.Until.Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		over = true
		k.ended[id] = known.Until
		delete(k.known, id)
		k.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "exception ended", audited(known.Exception, plain("by", known.By))...)
	}
	if over {
		k.rebuild()
	}
	return next
}
