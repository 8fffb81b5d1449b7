package redis

import (
	"cmp"
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

const (
	maxUnanswered = 5                      // consecutive unanswered calls that open the breaker; by default they take half a second
	probeEvery    = 250 * time.Millisecond // interval of probes while the breaker is open
	reminder      = time.Minute            // minimum interval of warnings, so that a Redis that fails some calls does not flood the log
)

var errOpen = fmt.Errorf("%w: Redis does not answer, so it gets no requests until it does", limiter.ErrUnavailable)

// health observes the calls to one Redis. It logs outages and is a circuit breaker, which keeps
// requests from waiting for a Redis that does not answer: while the breaker is open, no call is
// made, and background probes notice when Redis answers again.
//
// Only silence opens the breaker: calls that timed out or found no connection. Error replies
// cause no delay, and a Redis that refuses writes can still deny. A cluster has no breaker,
// because its healthy nodes must still get requests.
type health struct {
	client   *conn.Client
	queues   *queue.Queues
	probeKey string              // key of the counter that probes charge
	log      func() *slog.Logger // logger with the current address of Redis
	gauge    prometheus.Gauge    // 1 while the breaker is open, nil for a cluster
	open     atomic.Bool

	mu         sync.Mutex
	state      State
	warn       rate.Sometimes
	logged     bool // the current outage is logged
	failures   int  // failed calls since the last warning
	unanswered int  // consecutive unanswered calls

	probes sync.WaitGroup
	ctx    context.Context // context of probes
	cancel context.CancelFunc
}

// State is the state of a Redis.
type State struct {
	WorkedAt     time.Time // time of the last successful call, or zero
	FailingSince time.Time // time of the first failed call after WorkedAt, or zero
	FailedAt     time.Time // time of the last failed call, or zero
	Kind         string    // kind of the last error, as in metrics
	Problem      string    // text of the last error, without passwords
	Breaker      string    // "closed", "open" while Redis gets no requests, or "" for a cluster
}

func newHealth(client *conn.Client, probeKey string, gauge prometheus.Gauge, log func() *slog.Logger) *health {
	h := &health{client: client, probeKey: probeKey, gauge: gauge, log: log, warn: rate.Sometimes{Interval: reminder}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

func (h *health) current() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.state
	if h.open.Load() {
		state.Breaker = "open"
	} else if h.gauge != nil {
		state.Breaker = "closed"
	}
	return state
}

// refusal returns errOpen while the breaker is open, else nil.
func (h *health) refusal() error {
	if h.open.Load() {
		return errOpen
	}
	return nil
}

// called records the outcome of a call whose time limit was patience. err is nil for a success.
func (h *health) called(err error, patience time.Duration) {
	h.observe(err)
	h.setBreaker(err, patience)
}

// observe updates the state. It logs when Redis starts to fail, repeatedly while it fails, and when
// it works again.
func (h *health) observe(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if err == nil {
		if h.logged {
			h.log().Info("redis works again", "after", now.Sub(h.state.FailingSince).Round(time.Millisecond))
		}
		h.logged, h.state.FailingSince, h.state.WorkedAt = false, time.Time{}, now
		return
	}
	if h.state.FailingSince.IsZero() {
		h.state.FailingSince = now
	}
	h.state.FailedAt, h.state.Kind, h.state.Problem = now, string(conn.Classify(err)), err.Error()
	h.failures++
	h.warn.Do(func() {
		h.log().Warn("redis is failing, failure modes apply", "kind", h.state.Kind, "err", h.state.Problem,
			"failed_calls", h.failures, "for", now.Sub(h.state.FailingSince).Round(time.Millisecond))
		h.logged, h.failures = true, 0
	})
}

// setBreaker opens or closes the breaker after a call or probe whose time limit was patience.
func (h *health) setBreaker(err error, patience time.Duration) {
	if h.gauge == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case conn.Answered(err):
		h.unanswered = 0
		if h.open.Swap(false) {
			h.gauge.Set(0)
			h.log().Info("redis answers again, sending requests to it")
		}
	case h.open.Load():
	default:
		if h.unanswered++; h.unanswered < maxUnanswered {
			return
		}
		h.open.Store(true)
		h.gauge.Set(1)
		h.log().Warn("redis does not answer, sending it no requests until it does", "failed_calls", maxUnanswered)
		h.probes.Go(func() { h.probeUntilClosed(patience) })
	}
}

// probeUntilClosed probes Redis until it answers or close is called. patience is the time limit of
// the call that opened the breaker, and of each probe, because a slower Redis is of no use.
func (h *health) probeUntilClosed(patience time.Duration) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for h.open.Load() {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(h.ctx, patience)
		h.setBreaker(h.ping(ctx), patience)
		cancel()
	}
}

// ping returns nil if Redis can decide.
func (h *health) ping(ctx context.Context) error {
	err := h.client.Failed(h.client.Probe(ctx, h.probeKey, h.probeCounter))
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) { // a cancellation says nothing about Redis
		h.observe(err)
	}
	return queue.Unavailable(err)
}

// probeLimit is the limit of the counter that probes charge. It is too high to be reached. Its
// window begins with the first charge, so that the second charge falls into the same window.
var probeLimit = limiter.MustLimit(limiter.Spec{RequestsPerUnit: math.MaxUint32, Unit: limiter.Second, Algorithm: limiter.FirstHit})

// probeCounter charges a counter twice, as requests do, first as a new counter and then as an existing one.
// Then it refunds both charges. This runs every command of the script, except INCRBY, which the script can do
// without, and the commands for holds and logs. The second charge uses EVAL, the others EVALSHA.
func (h *health) probeCounter(ctx context.Context, key string) error {
	for i, hit := range []limiter.Hit{{Cost: 1}, {Cost: 1}, {Cost: 2, Refund: true}} {
		hit.Limit, hit.Key = probeLimit, []byte(key)
		c := queue.NewCall(0, 0)
		c.Batch.Add([]limiter.Hit{hit}, false)
		h.queues.Run(ctx, nil, []*queue.Call{c}, i == 1)
		switch err := cmp.Or(c.Err, c.Reply.Refusal); {
		case c.Err == nil && err != nil && conn.Classify(err) == conn.KindOOM:
			return nil // Redis is out of memory, but can still deny
		case err != nil:
			return err
		}
	}
	return nil
}

// close stops the probes. The method called must not be used after close.
func (h *health) close() {
	h.cancel()
	h.probes.Wait()
}
