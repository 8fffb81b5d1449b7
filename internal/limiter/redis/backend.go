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

	any     *node       // the one Redis there is; of a cluster, for batches whose node is not known
	located atomic.Bool // the client of a cluster knows which node has which slot

	mu      sync.RWMutex
	nodes   map[caller]*node // of a cluster, by their clients
	closed  bool
	working sync.WaitGroup // nodes to which calls are made, requests across slots, and those whose callers left
}

// newBackend returns what asks client. name is the label of the backend in metrics.
func newBackend(name string, client *client, denials *denials, local func() time.Time, o *Options, metrics *metrics, log *slog.Logger) *backend {
	named := func() *slog.Logger { return log.With("address", client.name()) }
	b := &backend{
		client:   client,
		patience: min(cmp.Or(o.Wait, DefaultWait), client.server.Timeout),
		now:      o.Now,
		local:    local,
		denials:  denials,
		probeKey: limiter.ProbeKey(o.KeyPrefix),
		metrics:  metrics,
		log:      named,
		outage:   outage{log: named, warn: rate.Sometimes{Interval: reminder}},
		lateLog:  rate.Sometimes{Interval: reminder},
	}
	b.any = &node{backend: b}
	if client.cluster() != nil {
		b.nodes = make(map[caller]*node)
	} else {
		b.any.asks = b.client
		b.breaker = newBreaker(b.ping, named, metrics.breakerOpen.WithLabelValues(name))
	}
	return b
}

// slot is the slot of a cluster that has the counter of a key, else 0.
func (b *backend) slot(key []byte) int {
	if b.nodes == nil {
		return 0
	}
	return limiter.Slot(key)
}

// node returns the node of a counter. It does not wait for a cluster to be asked. A new node
// removes the nodes of former clients, which a new password or a new primary has replaced.
func (b *backend) node(key []byte) *node {
	if b.nodes == nil || !b.located.Load() {
		return b.any
	}
	cluster := b.client.cluster()
	client, err := cluster.MasterForKey(context.Background(), string(key))
	if err != nil {
		return b.any
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
		maps.DeleteFunc(b.nodes, func(old caller, n *node) bool {
			now, err := cluster.MasterForKey(context.Background(), n.first)
			return err != nil || now != old
		})
		n = &node{backend: b, asks: client, first: string(key), closed: b.closed}
		b.nodes[client] = n
	}
	return n
}

// enter adds to what drain waits for, unless the store is closed.
func (b *backend) enter() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if !b.closed {
		b.working.Add(1)
	}
	return !b.closed
}

// drain refuses further requests and waits until those that it has are decided.
func (b *backend) drain() {
	b.mu.Lock()
	b.closed = true
	b.any.close()
	for _, n := range b.nodes {
		n.close()
	}
	b.mu.Unlock()
	b.working.Wait()
}
