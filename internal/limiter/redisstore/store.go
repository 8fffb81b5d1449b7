package redisstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redisstore/redisconn"
)

// Store is a limiter.Store on Redis. Its Decide holds a request back while the
// call before is in flight.
//
// Whatever Redis does, Decide returns within the OpTimeout of Options.Main, and so long
// before the deadline of the caller's context (an eighth of the time left, and
// answerTime if that is more) that the caller's own caller learns of the failure
// before it gives up.
type Store struct {
	main      *backend
	perSecond *backend // nil: none
	denials   *denials // nil: none

	mu         sync.Mutex
	closed     bool           // takes no more spreads on
	spreads    sync.WaitGroup // that run
	spreadHits int            // of them
}

var _ limiter.Store = (*Store)(nil)

// New returns a store on the Redis that o names, or an error that names what is
// wrong with o. It does not connect: Redis need not be there yet.
func New(o Options) (*Store, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	first, err := redisconn.Open(o.Main)
	if err != nil {
		return nil, err
	}
	var second *redisconn.Client
	if o.PerSecond != nil {
		perSecond := *o.PerSecond
		perSecond.OpTimeout = cmp.Or(perSecond.OpTimeout, o.Main.OpTimeout)
		if second, err = redisconn.Open(perSecond); err != nil {
			return nil, errors.Join(err, first.Close())
		}
	}
	metrics := newMetrics(o.Registerer) // nothing can fail any more
	s := &Store{
		main:    newBackend("main", first, &o, metrics, log),
		denials: newDenials(o.DenyMemory, localClock(o.Now)),
	}
	if second != nil {
		s.perSecond = newBackend("per_second", second, &o, metrics, log)
	}
	for _, b := range s.backends() {
		b.denials = s.denials
	}
	return s, nil
}

// Decide implements limiter.Store, except that a request whose counters are on
// several slots of a cluster, or in both Redis, is all or nothing only in the
// end, see spread. All its errors wrap limiter.ErrUnavailable; if the caller
// went away, also the cause of that.
func (s *Store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if s.denials.deny(hits, out) {
		return true, nil
	}
	first := s.laneOf(&hits[0])
	for i := range hits {
		if s.laneOf(&hits[i]) != first {
			return s.decideSpread(ctx, hits, out)
		}
	}
	return first.decide(ctx, hits, out)
}

// laneOf returns the lane of the counter of h.
func (s *Store) laneOf(h *limiter.Hit) *lane {
	if s.perSecond != nil && h.Limit.Unit == limiter.Second {
		return s.perSecond.lane(h.Key)
	}
	return s.main.lane(h.Key)
}

// backends lists what the store consists of.
func (s *Store) backends() []*backend {
	if s.perSecond == nil {
		return []*backend{s.main}
	}
	return []*backend{s.main, s.perSecond}
}

// State tells whether Redis decides, as of the last call. Of two, it is that of
// the one that fails.
func (s *Store) State() State {
	for _, b := range s.backends() {
		if state := b.outage.now(); !state.FailingSince.IsZero() {
			return state
		}
	}
	return s.main.outage.now()
}

// Close ends the store: it refuses new requests, lets those that it has taken
// on be decided for at most ten times that OpTimeout, and closes the
// connections. It returns when nothing of the store runs any more.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	landed := make(chan struct{})
	go func() {
		defer close(landed)
		s.spreads.Wait() // what they give back must find the lanes open
		for _, b := range s.backends() {
			b.land()
		}
	}()
	timer := time.NewTimer(10 * s.main.opTimeout)
	defer timer.Stop()
	select {
	case <-landed:
	case <-timer.C:
	}
	var errs []error
	for _, b := range s.backends() {
		errs = append(errs, b.client.Close())
	}
	<-landed
	for _, b := range s.backends() {
		b.close()
	}
	return errors.Join(errs...)
}
