package redis

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/limiter"
)

// backend is one Redis as operators know it: a server, a primary behind
// sentinels, or a cluster.
type backend struct {
	client   *client
	patience time.Duration    // of a caller without a deadline
	now      func() time.Time // nil: Redis' clock
	oneClock bool             // now is that of all processes
	local    func() time.Time // the clock of this process
	ahead    atomic.Int64     // by how many microseconds Redis' clock is, as the last call found out that had to
	denials  *denials         // nil: none
	probeKey string           // of the counter that probes charge
	metrics  *metrics
	log      func() *slog.Logger // names the server
	outage   outage
	late     atomic.Int64 // requests answered too late that are not logged yet
	lateLog  rate.Sometimes
	breaker  *breaker // nil: none

	only    *lane                  // nil: a cluster
	server  *node                  // of only
	lanes   []atomic.Pointer[lane] // of a cluster, by slot; nil where no counter was met
	located atomic.Bool            // the client knows which node has which slot

	mu      sync.RWMutex
	nodes   map[caller]*node // of a cluster
	closed  bool
	working sync.WaitGroup // lanes of which something is called or waits, and requests whose callers left
}

// newBackend returns what asks client. name is the label of the backend in metrics.
func newBackend(name string, client *client, denials *denials, o *Options, metrics *metrics, log *slog.Logger) *backend {
	named := func() *slog.Logger { return log.With("address", client.name()) }
	b := &backend{
		client:   client,
		patience: min(cmp.Or(o.Wait, DefaultWait), client.server.Timeout),
		now:      o.Now,
		oneClock: o.OneClock,
		local:    localClock(o.Now),
		denials:  denials,
		probeKey: limiter.ProbeKey(o.KeyPrefix),
		metrics:  metrics,
		log:      named,
		outage:   outage{log: named},
		lateLog:  rate.Sometimes{Interval: reminder},
	}
	if client.cluster() != nil {
		b.lanes, b.nodes = make([]atomic.Pointer[lane], limiter.Slots), make(map[caller]*node)
	} else {
		b.only, b.server = &lane{backend: b}, &node{backend: b, client: b.client}
		b.breaker = newBreaker(b.ping, named, metrics.breakerOpen.WithLabelValues(name))
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
		l = &lane{backend: b, key: string(key), closed: b.closed}
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
	b.mu.Unlock()
	if b.only != nil {
		b.only.close()
	}
	for i := range b.lanes {
		if l := b.lanes[i].Load(); l != nil {
			l.close()
		}
	}
	b.working.Wait()
}
