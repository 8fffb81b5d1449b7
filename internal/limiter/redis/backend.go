package redis

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// backend is one Redis as operators know it: a server, a primary behind
// sentinels, or a cluster.
type backend struct {
	client   *client
	now      func() time.Time // nil: Redis' clock
	oneClock bool             // now is that of all processes
	local    func() time.Time // the clock of this process
	ahead    atomic.Int64     // by how many microseconds Redis' clock is, as the last call found out that had to
	denials  *denials         // nil: none
	probeKey string           // of the counter that probes charge
	metrics  *metrics
	outage   outage
	timeouts timeoutLog
	breaker  *breaker // nil: none

	only    *lane                  // nil: a cluster
	server  *node                  // of only
	lanes   []atomic.Pointer[lane] // of a cluster, by slot; nil where no counter was met
	located atomic.Bool            // the client knows which node has which slot

	mu        sync.RWMutex
	nodes     map[caller]*node // of a cluster
	closed    bool
	abandoned sync.WaitGroup // requests whose callers left, until they are decided
}

// newBackend returns what asks client. name is the label of the backend in metrics.
func newBackend(name string, client *client, o *Options, metrics *metrics, log *slog.Logger) *backend {
	named := func() *slog.Logger { return log.With("address", client.name()) }
	b := &backend{
		client:   client,
		now:      o.Now,
		oneClock: o.OneClock,
		local:    localClock(o.Now),
		probeKey: limiter.ProbeKey(o.KeyPrefix),
		metrics:  metrics,
		outage:   outage{log: named},
		timeouts: timeoutLog{log: named},
	}
	if client.cluster() != nil {
		b.lanes, b.nodes = make([]atomic.Pointer[lane], limiter.Slots), make(map[caller]*node)
	} else {
		b.only, b.server = newLane(b, nil), &node{backend: b, client: b.client}
		b.breaker = newBreaker(b.pingInTime, named, metrics.breakerOpen.WithLabelValues(name))
	}
	return b
}

// lane returns the lane of a counter.
func (b *backend) lane(key []byte) *lane {
	if b.only != nil {
		return b.only
	}
	at := &b.lanes[limiter.Slot(key)]
	if l := at.Load(); l != nil {
		return l
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l := at.Load()
	if l == nil {
		l = newLane(b, key)
		if b.closed {
			l.queue.close()
		}
		at.Store(l)
	}
	return l
}

// nodeOf returns the node of a counter, or nil if it is not known yet. It does not
// wait for a cluster to be asked.
func (b *backend) nodeOf(key string) *node {
	if b.server != nil {
		return b.server
	}
	if !b.located.Load() {
		return nil
	}
	client, err := b.client.cluster().MasterForKey(context.Background(), key)
	if err != nil {
		return nil
	}
	b.mu.RLock()
	n := b.nodes[client]
	b.mu.RUnlock()
	if n != nil {
		return n
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n = b.nodes[client]; n == nil {
		maps.DeleteFunc(b.nodes, func(_ caller, n *node) bool { return n.isIdle() }) // also what left the cluster
		n = &node{backend: b, client: client}
		b.nodes[client] = n
	}
	return n
}

// drain refuses further requests and waits until those that it has are decided.
func (b *backend) drain() {
	b.mu.Lock()
	b.closed = true
	lanes := []*lane{b.only}
	if b.only == nil {
		lanes = lanes[:0]
		for i := range b.lanes {
			if l := b.lanes[i].Load(); l != nil {
				lanes = append(lanes, l)
			}
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
