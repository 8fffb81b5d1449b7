package redis

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/queue"
)

// Server describes a Redis deployment and its connections.
type Server = conn.Server

// Type is a kind of Redis deployment.
type Type = conn.Type

// Options configure a Store.
type Options struct {
	// Main is the Redis that keeps the counters.
	Main Server
	// PerSecond, if not nil, is a second Redis, for limits with unit second.
	PerSecond *Server
	// Wait is how long a caller without a deadline waits, but at most the Timeout of the Redis. 0
	// means 100 milliseconds.
	Wait time.Duration
	// KeyPrefix is the prefix of all keys. A user of Redis may be restricted to these keys.
	KeyPrefix string
	// DenyMemory is the approximate memory in bytes for remembered used-up counters, which deny for a second
	// without a call. Half as much again is used for other counters. 0 disables both.
	DenyMemory int
	// DenyCharged makes remembered counters also decide hits that are always charged, if their
	// fixed window is used up. Redis then does not count these hits, as in envoyproxy/ratelimit.
	DenyCharged bool
	// Now returns the time of decisions in tests. If nil, Redis provides the time.
	Now func() time.Time
	// Logger logs outages of Redis. nil disables it.
	Logger *slog.Logger
	// Registerer registers the metrics. nil disables them.
	Registerer prometheus.Registerer

	local func() time.Time // clock of this server in tests; if nil, Now is used, and if that is nil, too, time.Now
}

// Store is a limiter.CounterStore on Redis. Decide returns in time even if Redis hangs, see
// queue.Queues.Timeout.
type Store struct {
	main     *backend
	backends []*backend // main, and the Redis for limits per second if there is one
	memo     *memo
}

// backend is one Redis deployment of a store.
type backend struct {
	client *conn.Client
	queues *queue.Queues
	health *health
	memo   *memo // shared by all backends
}

// New returns a store on the Redis that o names. It does not connect, so Redis need not be reachable
// yet.
func New(o Options) *Store {
	if o.local == nil {
		o.local = o.Now
	}
	if o.local == nil {
		o.local = time.Now
	}
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	metrics := queue.NewMetrics(o.Registerer)
	breakerOpen := promauto.With(o.Registerer).NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_redis_breaker_open", Help: "1 while Weir does not ask Redis because it does not answer, else 0. Absent for a cluster.",
	}, []string{"redis"})
	memo := newMemo(o.DenyMemory, o.DenyCharged, o.local)
	open := func(name string, server Server) *backend {
		client := conn.Open(server, log)
		var gauge prometheus.Gauge
		if !client.IsCluster() {
			gauge = breakerOpen.WithLabelValues(name)
		}
		log := func() *slog.Logger { return log.With("address", client.Name()) }
		h := newHealth(client, limiter.ProbeKey(o.KeyPrefix), gauge, log)
		b := &backend{client: client, health: h, memo: memo}
		b.queues = queue.New(queue.Options{
			Client: client, Patience: min(cmp.Or(o.Wait, 100*time.Millisecond), client.Timeout()), Now: o.Now, Local: o.local,
			Metrics: metrics, Log: log, Check: h.refusal, Called: h.called,
			NextNumber: func() int64 { return b.memo.calls.Add(1) }, Decided: func(c *queue.Call) { b.memo.noteCredits(c) },
		})
		h.queues = b.queues
		return b
	}
	s := &Store{memo: memo, main: open("main", o.Main)}
	s.backends = []*backend{s.main}
	if o.PerSecond != nil {
		s.backends = append(s.backends, open("per_second", *o.PerSecond))
	}
	return s
}

// Decide implements limiter.CounterStore, except that a request whose counters are in several
// slots of a cluster, or in both deployments, is all or nothing only eventually; see crossSlot.
// All errors wrap limiter.ErrUnavailable. If the caller has left, they also wrap the cause of ctx.
func (s *Store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if s.memo.deny(hits, out) {
		return true, nil
	}
	if others, some := s.memo.decideUsedUp(hits, out); some {
		return s.decideOthers(ctx, hits, others, out)
	}
	first := s.locate(&hits[0])
	rest := hits[1:]
	for i := range rest {
		if s.locate(&rest[i]) != first {
			return s.decideCrossSlot(ctx, hits, out)
		}
	}
	b := first.backend
	timeout := b.queues.Timeout(ctx)
	t, err := b.queues.Of(hits[0].Key).Add(ctx, first.slot, hits, false, timeout)
	if err != nil {
		return false, err
	}
	if err := b.queues.Wait(ctx, timeout, t.Call.Done); err != nil {
		t.Leave()
		copies := cloneHits(hits) // the caller may reuse hits
		b.queues.WhenDecided(ctx, t.Call.Done, func() error {
			// The memo must learn denials even if Redis is slower than all callers.
			_, _ = b.result(t, copies, make([]limiter.Decision, len(copies)))
			return t.Call.Err
		})
		return false, err
	}
	b.queues.CountLate(t.Call.Err)
	return b.result(t, hits, out)
}

// decideOthers decides hits[i] for each i in others. The memo has already decided the remaining
// hits. All hits must be charged even if their request is denied.
func (s *Store) decideOthers(ctx context.Context, hits []limiter.Hit, others []int, out []limiter.Decision) (denied bool, err error) {
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
	return limiter.Conclude(hits, out), nil
}

// result fills in out for a request whose call is done, and adds the counters' states to the memo.
func (b *backend) result(t queue.Ticket, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	var buf [16]limiter.State
	states, err := t.Outcomes(out, buf[:0])
	if err != nil {
		return false, err
	}
	denied = limiter.Conclude(hits, out)
	limiter.Describe(hits, states, t.Call.Reply.Now, out)
	b.memo.note(t, hits, states, denied)
	return denied, nil
}

// Ping returns nil if each Redis can decide within the Timeout of Options.Main: each must be a
// primary and accept charges, which Ping tries on a counter of its own that expires within a
// second. In a cluster, all primaries must answer and all slots must be served. A Redis that is
// out of memory can decide, because it still denies.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.main.client.Timeout())
	defer cancel()
	for _, b := range s.backends {
		if err := b.health.ping(ctx); err != nil {
			return err
		}
	}
	return nil
}

// State returns the state of the first deployment that is failing or, if none is, the state of the
// main Redis as of its last call.
func (s *Store) State() State {
	for _, b := range s.backends {
		if state := b.health.current(); !state.FailingSince.IsZero() {
			return state
		}
	}
	return s.main.health.current()
}

// Names returns the addresses of the one or two deployments, without passwords.
func (s *Store) Names() (names []string) {
	for _, b := range s.backends {
		names = append(names, b.client.Name())
	}
	return names
}

// Refused returns the reasons why Redis rejects a changed URL, user or password, or nil.
func (s *Store) Refused() error {
	var errs []error
	for _, b := range s.backends {
		errs = append(errs, b.client.Refused())
	}
	return errors.Join(errs...)
}

// Close refuses new requests, waits for at most the Timeout of Options.Main until the accepted
// requests are decided, closes the connections, and waits for the store's goroutines.
func (s *Store) Close() error {
	closed := sync.OnceValue(func() (err error) {
		for _, b := range s.backends {
			err = errors.Join(err, b.client.Close())
		}
		return err
	})
	defer time.AfterFunc(s.main.client.Timeout(), func() { _ = closed() }).Stop() // makes calls in flight fail
	for _, b := range s.backends {
		b.queues.Close()
		b.queues.Idle()
		b.health.close()
	}
	return closed()
}
