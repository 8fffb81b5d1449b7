package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/queue"
)

// health observes the calls to one Redis and probes it.
type health struct {
	client   *conn.Client
	queues   *queue.Queues
	probeKey string // key of the counter that probes charge
	outage   outage
	breaker  *breaker // nil for a cluster
}

func newHealth(client *conn.Client, probeKey string, log func() *slog.Logger) *health {
	return &health{client: client, probeKey: probeKey, outage: outage{log: log, warn: rate.Sometimes{Interval: reminder}}}
}

// check returns errOpen while the breaker is open, else nil.
func (h *health) check() error {
	if h.breaker.isOpen() {
		return errOpen
	}
	return nil
}

// called observes the outcome of a call that could take as long as patience.
func (h *health) called(err error, patience time.Duration) {
	h.outage.observe(err)
	h.breaker.observe(err, patience)
}

// State is the state of a Redis.
type State struct {
	WorkedAt     time.Time // of the last successful call, zero if there was none
	FailingSince time.Time // of the first failed call after that, zero if there was none
	FailedAt     time.Time // of the last failed call, zero if there was none
	Kind         string    // kind of the last error, as in metrics
	Problem      string    // text of the last error, without passwords
	Breaker      string    // "closed", "open" while Redis gets no requests, or "" for a cluster
}

// current returns the current state.
func (h *health) current() State {
	h.outage.mu.Lock()
	state := h.outage.state
	h.outage.mu.Unlock()
	switch {
	case h.breaker.isOpen():
		state.Breaker = "open"
	case h.breaker != nil:
		state.Breaker = "closed"
	}
	return state
}

// ping returns nil if Redis can decide.
func (h *health) ping(ctx context.Context) error {
	err := h.client.Failed(h.client.Probe(ctx, h.probeKey, h.probeCounter))
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) { // but not if the caller canceled
		h.outage.observe(err)
	}
	if err != nil {
		return queue.Unavailable(err)
	}
	return nil
}

// probeLimit is the limit of the counter that probes charge. It is too high to be reached, and its
// window begins with the first charge, so that the second charge is surely in the same window.
var probeLimit = limiter.MustLimit(limiter.Spec{RequestsPerUnit: math.MaxUint32, Unit: limiter.Second, Algorithm: limiter.FirstHit})

// probeCounter charges a counter as requests do, first a new one and then an existing one, and
// refunds both charges. This runs each command of the script except INCRBY, which the script can
// do without, by both EVAL and EVALSHA.
func (h *health) probeCounter(ctx context.Context, key string) error {
	for _, step := range []struct {
		eval bool
		hit  limiter.Hit
	}{
		{false, limiter.Hit{Cost: 1}}, {true, limiter.Hit{Cost: 1}}, {false, limiter.Hit{Cost: 2, Refund: true}},
	} {
		step.hit.Limit, step.hit.Key = probeLimit, []byte(key)
		c := queue.NewCall()
		c.Batch.Add([]limiter.Hit{step.hit}, false)
		h.queues.Run(ctx, c, step.eval)
		switch {
		case c.Err != nil:
			return c.Err
		case c.Reply.Refusal != nil && conn.Classify(c.Reply.Refusal) == conn.KindOOM:
			return nil // it can deny
		case c.Reply.Refusal != nil:
			return c.Reply.Refusal
		}
	}
	return nil
}

// reminder is the least time between two warnings. A Redis that fails some calls, for example
// because it is out of memory, must not flood the log.
const reminder = time.Minute

// outage keeps the state of a Redis. It logs when Redis starts to fail, repeatedly while it fails,
// and when it works again.
type outage struct {
	log func() *slog.Logger // logger with the current address of Redis

	mu       sync.Mutex
	state    State
	warn     rate.Sometimes
	logged   bool // the current outage is logged
	failures int  // since the last warning
}

// observe observes the outcome of a call or probe.
func (o *outage) observe(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if err == nil {
		if o.logged {
			o.log().Info("redis works again", "after", now.Sub(o.state.FailingSince).Round(time.Millisecond))
		}
		o.logged, o.state.FailingSince, o.state.WorkedAt = false, time.Time{}, now
		return
	}
	if o.state.FailingSince.IsZero() {
		o.state.FailingSince = now
	}
	o.state.FailedAt, o.state.Kind, o.state.Problem = now, string(conn.Classify(err)), err.Error()
	o.failures++
	o.warn.Do(func() {
		o.log().Warn("redis is failing, failure modes apply", "kind", o.state.Kind, "err", o.state.Problem,
			"failed_calls", o.failures, "for", now.Sub(o.state.FailingSince).Round(time.Millisecond))
		o.logged, o.failures = true, 0
	})
}

const (
	// maxUnanswered is the number of consecutive unanswered calls that opens the breaker. With
	// DefaultWait they take half a second.
	maxUnanswered = 5
	// probeEvery is the time between two probes while the breaker is open.
	probeEvery = 250 * time.Millisecond
)

var errOpen = fmt.Errorf("%w: Redis does not answer, so it gets no requests until it does", limiter.ErrUnavailable)

// breaker keeps requests from waiting for a Redis that does not answer. While it is open, no call
// is made, and background probes find out when Redis answers again.
//
// Only silence opens it: calls that timed out or found no connection. A Redis that replies with
// errors delays nothing, and one that refuses writes can still deny. A cluster has no breaker,
// because its healthy nodes must get their requests. A nil breaker is always closed.
type breaker struct {
	opened atomic.Bool
	probe  func(context.Context) error
	log    func() *slog.Logger // logger with the current address of Redis
	gauge  prometheus.Gauge    // 1 while open

	mu         sync.Mutex
	unanswered int // consecutive calls

	probes sync.WaitGroup
	ctx    context.Context // of probes
	cancel context.CancelFunc
}

// newBreaker returns a closed breaker. probe must have no lasting effect on Redis.
func newBreaker(probe func(context.Context) error, log func() *slog.Logger, gauge prometheus.Gauge) *breaker {
	b := &breaker{probe: probe, log: log, gauge: gauge}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// isOpen reports whether no calls are made.
func (b *breaker) isOpen() bool { return b != nil && b.opened.Load() }

// observe observes the outcome of a call or probe that could take as long as patience.
func (b *breaker) observe(err error, patience time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case conn.Answered(err):
		b.unanswered = 0
		if b.opened.Swap(false) {
			b.gauge.Set(0)
			b.log().Info("redis answers again, sending requests to it")
		}
	case b.opened.Load():
	default:
		if b.unanswered++; b.unanswered < maxUnanswered {
			return
		}
		b.opened.Store(true)
		b.gauge.Set(1)
		b.log().Warn("redis does not answer, sending it no requests until it does", "failed_calls", maxUnanswered)
		b.probes.Go(func() { b.probeUntilClosed(patience) })
	}
}

// probeUntilClosed probes Redis until it answers or close is called. A probe may take as long as
// the last call, because a slower Redis is of no use.
func (b *breaker) probeUntilClosed(patience time.Duration) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		err := b.probe(ctx)
		cancel()
		if b.observe(err, patience); !b.opened.Load() {
			return
		}
	}
}

// close ends the probes. observe must not be called afterwards.
func (b *breaker) close() {
	if b != nil {
		b.cancel()
		b.probes.Wait()
	}
}
