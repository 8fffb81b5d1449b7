package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// backend is one Redis as operators know it: a server, a primary behind
// sentinels, or a cluster.
type backend struct {
	client    redis.UniversalClient
	dialer    *dialer
	opTimeout time.Duration
	now       func() time.Time // nil: Redis' clock
	oneClock  bool             // now is that of all processes
	local     func() time.Time // the clock of denials
	denials   *denials         // nil: none
	probeKey  string           // of the counter that probes charge
	secrets   []string         // must not show in logs or errors
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

// newBackend makes the client of c, which are the options o. name is the label of
// the backend in metrics.
func newBackend(name string, o *Options, c *connection, metrics *metrics, log *slog.Logger) *backend {
	silence()
	log = log.With("address", c.address.name())
	b := &backend{
		client:    c.client(o),
		dialer:    c.dialer,
		opTimeout: c.ReadTimeout,
		now:       o.Now,
		oneClock:  o.OneClock,
		local:     localClock(o.Now),
		probeKey:  limiter.ProbeKey(o.KeyPrefix),
		secrets:   c.secrets(),
		metrics:   metrics,
		outage:    outage{log: log},
		timeouts:  timeoutLog{log: log},
	}
	b.dialer.watch()
	if o.Type == Cluster {
		b.lanes = make(map[int]*lane)
	} else {
		b.only = newLane(b)
		b.breaker = newBreaker(b.pingInTime, log, metrics.breakerOpen.WithLabelValues(name))
	}
	return b
}

// silence ends the log of go-redis, which has a form of its own. What it would
// say, calls return as errors.
var silence = sync.OnceFunc(func() { redis.SetLogger(noLog{}) })

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

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
	switch client := b.client.(type) {
	case *redis.ClusterClient:
		if kind == kindConnection || kind == kindTimeout || kind == kindReadOnly || kind == kindCluster {
			client.ReloadState(context.Background()) // in the background, and not too often
		}
	default:
		if kind == kindReadOnly {
			b.dialer.drop("")
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

// disconnect closes the connections. Calls that still wait fail at once.
func (b *backend) disconnect() error {
	err := b.client.Close()
	b.dialer.close()
	if err != nil {
		return fmt.Errorf("closing the connections to Redis: %w", err)
	}
	return nil
}
