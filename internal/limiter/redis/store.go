package redis

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"weir/internal/limiter"
)

// Store is a limiter.Store on Redis, with what a server has to know of it. It is an
// interface so that who imports this package does not compile all of go-redis again.
type Store interface {
	limiter.CounterStore
	// Ping returns nil if Redis can decide.
	Ping(context.Context) error
	// State reports whether Redis decides, as of the last call. Of two Redis, it is the
	// state of the one that fails.
	State() State
	// Names returns where the counters are: one Redis, or the main one and that of limits
	// per second. They hold no password.
	Names() []string
	// Refused returns why a Redis rejects a changed URL, user or password, so that
	// what was read before stays in use. It returns nil if that is not so.
	Refused() error
	// Close ends the store: it refuses new requests, waits for at most the Timeout of
	// Options.Main until those that it has are decided, and closes the
	// connections. It returns when nothing of the store runs any more.
	Close() error
}

// store is the Store. Whatever Redis does, Decide returns in time, see timeout.
type store struct {
	main      *backend
	perSecond *backend // nil: none
	denials   *denials // nil: none
}

// New returns a store on the Redis that o names, or an error that names what is
// wrong with o. It does not connect: Redis need not be there yet.
func New(o Options) (Store, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	first, err := newClient(o.Main, log)
	if err != nil {
		return nil, err
	}
	var second *client
	if o.PerSecond != nil {
		perSecond := *o.PerSecond
		perSecond.Timeout = cmp.Or(perSecond.Timeout, o.Main.Timeout)
		if second, err = newClient(perSecond, log); err != nil {
			return nil, errors.Join(err, first.close())
		}
	}
	metrics := newMetrics(o.Registerer) // nothing can fail any more
	local := o.Now
	if local == nil {
		local = time.Now
	}
	s := &store{denials: newDenials(o.DenyMemory, local)}
	if s.denials != nil {
		s.denials.charged = o.DenyCharged
	}
	s.main = newBackend("main", first, s.denials, local, &o, metrics, log)
	if second != nil {
		s.perSecond = newBackend("per_second", second, s.denials, local, &o, metrics, log)
	}
	return s, nil
}

// Decide implements limiter.CounterStore, except that a request whose counters are on
// several slots of a cluster, or in both Redis, is all or nothing only in the
// end, see crossSlot. All its errors wrap limiter.ErrUnavailable; if the caller
// went away, also the cause of that.
func (s *store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if s.denials.deny(hits, out) {
		return true, nil
	}
	if others, some := s.denials.decideUsedUp(hits, out); some {
		return s.decideOthers(ctx, hits, others, out)
	}
	first := s.locate(&hits[0])
	rest := hits[1:]
	for i := range rest {
		if s.locate(&rest[i]) != first {
			return s.decideCrossSlot(ctx, hits, out)
		}
	}
	b, timeout := first.backend, first.timeout(ctx)
	t, err := first.queue(ctx, hits, false, timeout)
	if err != nil {
		return false, err
	}
	if err := b.wait(ctx, timeout, t.batch.done); err != nil {
		t.batch.needed.Add(-1)    // it is called all the same, if the callers of others in it wait
		copies := cloneHits(hits) // the caller uses hits again
		b.whenDecided(ctx, t.batch.done, func() error {
			// Else a Redis slower than its callers would never be known to deny.
			_, _ = b.result(t, copies, make([]limiter.Decision, len(copies)))
			return t.batch.err
		})
		return false, err
	}
	if errors.Is(t.batch.err, errLate) {
		b.metrics.errors[kindQueueFull].Inc()
	}
	return b.result(t, hits, out)
}

// decideOthers has Redis decide the hits with the indexes others. The remaining hits are decided
// already. All hits are written whether or not the request is denied.
func (s *store) decideOthers(ctx context.Context, hits []limiter.Hit, others []int, out []limiter.Decision) (denied bool, err error) {
	if len(others) > 0 {
		rest, decisions := make([]limiter.Hit, len(others)), make([]limiter.Decision, len(others))
		for i, at := range others {
			rest[i] = hits[at]
		}
		if _, err := s.Decide(ctx, rest, decisions); err != nil {
			return false, err
		}
		for i, at := range others {
			out[at] = decisions[i]
		}
	}
	return limiter.Settle(hits, out), nil
}

// location is where the counters are that one script can see: a Redis, or a slot of a cluster.
type location struct {
	*backend
	slot int
}

// locate returns where the counter of h is.
func (s *store) locate(h *limiter.Hit) location {
	b := s.main
	if s.perSecond != nil && h.Limit.Unit == limiter.Second {
		b = s.perSecond
	}
	return location{b, b.slot(h.Key)}
}

// result reads the decision of a request from the reply, and notes it.
func (b *backend) result(t ticket, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	var buf [16]limiter.State
	states, err := t.outcomes(out, buf[:0])
	if err != nil {
		return false, err
	}
	denied = limiter.Settle(hits, out)
	limiter.Describe(hits, states, t.batch.reply.now, out)
	b.denials.note(t, hits, states, denied)
	return denied, nil
}

// backends returns the one or two Redis of the store.
func (s *store) backends() []*backend {
	if s.perSecond == nil {
		return []*backend{s.main}
	}
	return []*backend{s.main, s.perSecond}
}

// State implements Store.
func (s *store) State() State {
	for _, b := range s.backends() {
		if state := b.state(); !state.FailingSince.IsZero() {
			return state
		}
	}
	return s.main.state()
}

// Names implements Store.
func (s *store) Names() (names []string) {
	for _, b := range s.backends() {
		names = append(names, b.client.name())
	}
	return names
}

// Refused implements Store.
func (s *store) Refused() error {
	var errs []error
	for _, b := range s.backends() {
		if err := b.client.refused.Load(); err != nil {
			errs = append(errs, *err)
		}
	}
	return errors.Join(errs...)
}

// Close implements Store.
func (s *store) Close() error {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for _, b := range s.backends() {
			b.drain()
		}
	}()
	timer := time.NewTimer(s.main.client.server.Timeout)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
	var errs []error
	for _, b := range s.backends() {
		errs = append(errs, b.client.close())
	}
	<-drained
	for _, b := range s.backends() {
		b.breaker.close()
	}
	return errors.Join(errs...)
}
