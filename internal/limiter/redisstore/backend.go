package redisstore

import (
	"context"
	"log/slog"
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
	local     func() time.Time // the clock of denials
	denials   *denials         // nil: none
	probeKey  string           // of the counter that probes charge
	metrics   *metrics
	outage    outage
	timeouts  timeoutLog
	breaker   *breaker // nil: none

	only *lane // nil: a cluster

	mu        sync.RWMutex
	lanes     map[int]*lane // of a cluster, by slot
	closed    bool
	abandoned sync.WaitGroup // requests whose callers left, until they are decided
}

// newBackend returns what asks client. name is the label of the backend in metrics.
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
		timeouts:  timeoutLog{log: log},
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

// reconnect looks for the primary anew, if err is one that another primary may
// explain: after a failover it is another server.
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

// drain refuses further requests and waits until those that it has are decided.
func (b *backend) drain() {
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
		<-l.queue.drained
	}
}

// close ends what runs beside calls. No call may be made any more.
func (b *backend) close() {
	b.abandoned.Wait()
	b.breaker.close()
	b.outage.close()
	b.timeouts.close()
}
