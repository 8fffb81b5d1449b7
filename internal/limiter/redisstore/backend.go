package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redisstore/redisconn"
)

// backend is one Redis as operators know it: a server, a primary behind
// sentinels, or a cluster.
type backend struct {
	client    *redisconn.Client
	opTimeout time.Duration
	now       func() time.Time // nil: Redis' clock
	oneClock  bool             // now is that of all processes
	local     func() time.Time // of what is remembered
	denials   *denials         // nil: none
	probeKey  string           // of the counter that probes charge
	metrics   *metrics
	outage    outage
	lateness  lateness
	breaker   *breaker // nil: none

	only *lane // nil: a cluster

	mu     sync.RWMutex
	lanes  map[int]*lane // of a cluster, by slot
	closed bool
	left   sync.WaitGroup // requests whose callers left, until they are decided
}

// newBackend returns what asks client. name tells it from the other one in metrics.
func newBackend(name string, client *redisconn.Client, o *Options, metrics *metrics, log *slog.Logger) *backend {
	log = log.With("address", client.Name)
	b := &backend{
		client:    client,
		opTimeout: client.OpTimeout,
		now:       o.Now,
		oneClock:  o.OneClock,
		local:     localClock(o.Now),
		probeKey:  limiter.ProbeKey(o.KeyPrefix),
		metrics:   metrics,
		outage:    outage{log: log},
		lateness:  lateness{log: log},
	}
	if _, clustered := client.UniversalClient.(*redis.ClusterClient); clustered {
		b.lanes = make(map[int]*lane)
	} else {
		b.only = newLane(b)
		b.breaker = newBreaker(b.pingInTime, log, metrics.breakerOpen.WithLabelValues(name))
	}
	return b
}

// lane returns the lane of a counter.
func (b *backend) lane(key []byte) *lane {
	if b.only != nil {
		return b.only
	}
	slot := limiter.Slot(key)
	b.mu.RLock()
	l := b.lanes[slot]
	b.mu.RUnlock()
	if l != nil {
		return l
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l = b.lanes[slot]; l == nil {
		l = newLane(b)
		if b.closed {
			l.queue.close()
		}
		b.lanes[slot] = l
	}
	return l
}

// wait waits until done is closed, but not longer than the caller can, which is
// what patience returned.
func (b *backend) wait(ctx context.Context, patience time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: no answer of Redis within %v", limiter.ErrUnavailable, patience.Round(time.Millisecond))
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting for Redis: %w", limiter.ErrUnavailable, context.Cause(ctx))
	}
}

// patience is how long a caller can wait for Redis.
func (b *backend) patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(b.opTimeout, patienceOf(time.Until(deadline)))
	}
	return b.opTimeout
}

// afterwards takes note of the answer to the request at place of a batch when it
// comes, which is after the calls before it and its own. Its caller, who owns hits,
// has left: else a Redis slower than its callers would never be known to deny.
func (b *backend) afterwards(ctx context.Context, batch *batch, place int, hits []limiter.Hit) {
	late := isLate(ctx)
	if b.denials != nil {
		hits = slices.Clone(hits)
		for i, h := range hits {
			hits[i] = kept(h)
		}
	}
	b.after(batch.done, func() {
		if batch.err != nil && !errors.Is(batch.err, errLate) {
			return // which is told of as that of the call
		}
		if late {
			b.answeredLate()
		}
		if batch.err != nil || b.denials == nil {
			return
		}
		out := make([]limiter.Decision, len(hits))
		states, err := batch.reply.outcomes(place, out, nil)
		if err != nil {
			return
		}
		b.denials.note(batch, place, hits, states, limiter.Settle(hits, out))
	})
}

// kept is a hit that may be kept when its request is answered: nothing of it is
// the caller's, who uses its memory again.
func kept(h limiter.Hit) limiter.Hit {
	h.Key, h.Labels = bytes.Clone(h.Key), nil
	return h
}

// after does something when done is closed, unless the store is closed before.
func (b *backend) after(done <-chan struct{}, do func()) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return
	}
	b.left.Go(func() {
		<-done
		do()
	})
}

// isLate tells of a caller who waited in vain whether time was up. A caller who
// cancels need not have waited for long.
func isLate(ctx context.Context) bool { return !errors.Is(ctx.Err(), context.Canceled) }

// answeredLate tells of a request that Redis answered when its caller had left, or
// would have. The breaker is not for this: Redis answers.
func (b *backend) answeredLate() {
	b.metrics.errors[kindTimeout].Inc()
	b.lateness.observe()
}

// answerTime is what an answer needs to wake up and travel on a busy machine. Of
// Envoy's default of 20 ms it leaves 15 to Redis.
const answerTime = 5 * time.Millisecond

// patienceOf is how long a caller can wait who gives up when so much time has
// passed, and whose own caller is to learn of it before that.
func patienceOf(left time.Duration) time.Duration {
	answer := max(left/8, min(left/2, answerTime))
	return max(0, left-answer)
}

// reconnect does what helps against an error: after a failover somebody else
// may be the primary.
func (b *backend) reconnect(err error) {
	kind := classify(err)
	switch client := b.client.UniversalClient.(type) {
	case *redis.ClusterClient:
		if kind == kindConnection || kind == kindTimeout || kind == kindReadOnly || kind == kindCluster {
			client.ReloadState(context.Background()) // in the background, and not too often
		}
	default:
		if kind == kindReadOnly {
			b.client.Drop()
		}
	}
}

// land refuses further requests and waits until those taken on are decided.
func (b *backend) land() {
	b.mu.Lock()
	b.closed = true
	lanes := []*lane{b.only}
	if b.only == nil {
		lanes = lanes[:0]
		for _, l := range b.lanes {
			lanes = append(lanes, l)
		}
	}
	b.mu.Unlock()
	for _, l := range lanes {
		l.queue.close()
	}
	for _, l := range lanes {
		<-l.queue.landed
	}
}

// close ends what goes on beside calls, when no call is made any more.
func (b *backend) close() {
	b.left.Wait()
	b.breaker.close()
	b.outage.close()
	b.lateness.close()
}
