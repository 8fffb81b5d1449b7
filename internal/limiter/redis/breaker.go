package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

const (
	// maxUnanswered is how many calls in a row go unanswered until the breaker
	// opens: with DefaultWait, those of half a second.
	maxUnanswered = 5
	// probeEvery is the time between two probes of a Redis that is not asked.
	probeEvery = 250 * time.Millisecond
)

var errOpen = fmt.Errorf("%w: Redis does not answer, so it gets no requests until it does", limiter.ErrUnavailable)

// breaker keeps requests from waiting for a Redis that does not answer. While it
// is open no call is made, and a probe in the background finds out when Redis
// answers again; no request has to.
//
// Only silence opens it: calls that timed out or found no connection. A Redis that
// replies, if only with errors, delays nobody, and one that refuses writes can
// still deny. A cluster has no breaker, because its healthy nodes must go on: nil,
// which is always closed.
type breaker struct {
	opened atomic.Bool
	probe  func(context.Context) error
	log    func() *slog.Logger // names the server
	gauge  prometheus.Gauge    // 1 while open

	mu         sync.Mutex
	unanswered int // calls in a row

	probes sync.WaitGroup
	ctx    context.Context // of probes
	cancel context.CancelFunc
}

// newBreaker returns a breaker that lets calls pass. probe must do no harm.
func newBreaker(probe func(context.Context) error, log func() *slog.Logger, gauge prometheus.Gauge) *breaker {
	b := &breaker{probe: probe, log: log, gauge: gauge}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// answered reports whether Redis replied, if only with an error.
func answered(err error) bool {
	if err == nil {
		return true
	}
	kind := classify(err)
	return kind != kindTimeout && kind != kindConnection
}

// isOpen reports whether no calls are made.
func (b *breaker) isOpen() bool { return b != nil && b.opened.Load() }

// observe notes the outcome of a call or a probe that could take so long.
func (b *breaker) observe(err error, patience time.Duration) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answered(err):
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

// probeUntilClosed probes Redis until it answers or the breaker is closed for good. A probe
// may take as long as the last call: a slower Redis is of no use.
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

// close ends the probes. observe must not be called any more.
func (b *breaker) close() {
	if b != nil {
		b.cancel()
		b.probes.Wait()
	}
}
