package app

import (
	"container/list"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// arrivalBounds say how much of gRPC requests may wait for its rest, or for its
// answer to be sent. An Envoy sends a request in one piece and reads its answers, so
// that few wait at a time, and not for long.
type arrivalBounds struct {
	bytes      int64         // what all connections may hold, of which each request is requestCost
	streams    int64         // that last, such as followed health checks
	ownStreams int64         // of one connection
	patience   time.Duration // for the rest of a request, or with a client that does not read
	pause      time.Duration // in which a connection is not read that had too many, on average
	conns      int           // connections; 0: any number
}

var defaultArrivalBounds = arrivalBounds{
	bytes:      32 << 20,
	streams:    512,
	ownStreams: 8,
	patience:   10 * time.Second,
	pause:      500 * time.Millisecond,
	conns:      int(min(16<<10, fileDescriptors()/2)), // with 30 KiB for each
}

const (
	// requestCost is what a request takes beside its message, at most: a goroutine, what
	// gRPC keeps of it, and what may pile up before the next garbage collection.
	requestCost = 16 << 10
	// leastShare is what a connection may hold at any rate.
	leastShare = 8 * requestCost
)

// Ages are counted in ticks of a hundredth of the patience. The clock stands still while
// the process has no processor, which makes no request old.
const (
	oldTicks    = 2   // a request that came in one piece is never so old
	unreadTicks = 10  // for answers, if there is a crowd
	lateTicks   = 100 // at any rate
)

// arrivals are the requests of the gRPC server that wait for their rest, or for their
// answer to be sent. Beyond the bounds the connections that hold most are read little
// by little, and lose what is old.
//
// gRPC itself bounds the calls of a connection and the bytes of a call, but neither
// the calls nor the bytes of all.
type arrivals struct {
	bounds                arrivalBounds
	late, crowded, unread ending

	load    atomic.Int64 // see arrivalConn.load
	bytes   atomic.Int64 // of requests that are not whole, when they were last counted
	streams atomic.Int64
	read    atomic.Int64 // bytes that came on all connections
	alarm   atomic.Int64 // when read is greater, it is time to count the bytes
	now     atomic.Int64 // in ticks

	mu      sync.Mutex
	conns   map[*arrivalConn]bool // all that are open
	timer   *time.Timer
	waiting bool // timer will fire
}

// arrival is a request that is not whole yet.
type arrival struct {
	conn   *arrivalConn
	place  *list.Element
	since  int64 // tick
	before int64 // what the connection had read, less what was whole
	call   call
	ended  *ending // nil: by itself, or not yet
}

// call is the one way to end a call with a status of one's own while it waits for
// its message. What gRPC hands out has it.
type call interface{ WriteStatus(*status.Status) error }

// ending is why a request ends before it is whole.
type ending struct {
	status *status.Status
	count  prometheus.Counter
}

func newArrivals(bounds arrivalBounds, reg prometheus.Registerer) *arrivals {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "weir", Name: "grpc_unfinished_requests_total",
		Help: "gRPC requests that were ended before they were finished, by reason: late, the rest did not come in time; crowded, too many requests or bytes of all connections waited for their rest; unread, the client did not read its answers, and its connection was closed.",
	}, []string{"reason"})
	reg.MustRegister(ended)
	a := &arrivals{
		bounds:  bounds,
		late:    ending{status.Newf(codes.DeadlineExceeded, "the rest of the request did not come within %v", bounds.patience), ended.WithLabelValues("late")},
		crowded: ending{status.New(codes.ResourceExhausted, "too many requests wait for their rest"), ended.WithLabelValues("crowded")},
		unread:  ending{nil, ended.WithLabelValues("unread")},
		conns:   map[*arrivalConn]bool{},
	}
	a.timer = time.AfterFunc(math.MaxInt64, a.sweep)
	return a
}

// overhead is about what a request takes on the wire beside its message.
const overhead = 64

// receive receives the message m of the call of ctx.
func (a *arrivals) receive(ctx context.Context, m any, receive func(any) error) error {
	r := &arrival{conn: connOf(ctx), call: grpc.ServerTransportStreamFromContext(ctx).(call)}
	a.begin(r)
	err := receive(m)
	whole := 0
	if err == nil {
		whole = overhead + wireSize(m)
	}
	if ended := a.finish(r, int64(whole)); ended != nil {
		return ended.status.Err()
	}
	return err
}

func wireSize(m any) int {
	switch m := m.(type) {
	case interface{ WireSize() int }: // of rls, without generated code
		return m.WireSize()
	case proto.Message:
		return proto.Size(m)
	}
	return 0
}

// begin adds a request.
func (a *arrivals) begin(r *arrival) {
	a.mu.Lock()
	c := r.conn
	r.since, r.before = a.now.Load(), c.read.Load()-c.whole
	r.place = c.requests.PushBack(r)
	a.mu.Unlock()
}

// finish removes a request, of which so many bytes are whole now, and tells why it
// was ended before, if it was.
func (a *arrivals) finish(r *arrival, whole int64) *ending {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.conn.whole += whole
	if r.ended == nil {
		r.conn.requests.Remove(r.place)
	}
	return r.ended
}

// verdict is what a sweep has found: calls to end, and connections to close.
type verdict struct {
	calls []*arrival
	conns []*arrivalConn
}

// end removes the oldest request of a connection.
func (v *verdict) end(c *arrivalConn, why *ending) {
	r := c.oldest()
	r.ended = why
	c.requests.Remove(r.place)
	v.calls = append(v.calls, r)
}

// close removes a connection.
func (v *verdict) close(a *arrivals, c *arrivalConn) {
	delete(a.conns, c)
	v.conns = append(v.conns, c)
}

// execute is called without the lock.
func (v *verdict) execute(unread *ending) {
	for _, c := range v.conns {
		unread.count.Add(float64(c.unanswered()))
		go func() { _ = c.Close() }() // which may wait for TLS
	}
	for _, r := range v.calls {
		r.ended.count.Inc()
		_ = r.call.WriteStatus(r.ended.status) // or the client has gone
	}
}

// add adds to the requests that a connection holds.
func (a *arrivals) add(c *arrivalConn, n int64) {
	c.load.Add(n)
	a.load.Add(n)
}

// compared is how many connections are compared to find one that gives way.
const compared = 64

// giveWay returns the connection that gives way to a new one, or nil. Of some it is
// the one without requests that was read longest ago, or else the new one. It needs
// the lock.
func (a *arrivals) giveWay(newest *arrivalConn) *arrivalConn {
	if a.bounds.conns == 0 || len(a.conns) <= a.bounds.conns {
		return nil
	}
	idlest, left := newest, compared
	for c := range a.conns { // in random order
		if c != newest && c.unanswered() == 0 && (idlest == newest || c.last.Load() < idlest.last.Load()) {
			idlest = c
		}
		if left--; left == 0 {
			break
		}
	}
	delete(a.conns, idlest)
	return idlest
}

// watch lets sweep look in a tick.
func (a *arrivals) watch() {
	a.mu.Lock()
	if !a.waiting {
		a.waiting = true
		a.timer.Reset(a.bounds.patience / lateTicks)
	}
	a.mu.Unlock()
}

// sweep ends the requests that came too long ago, those of whom the answers cannot be
// sent, and if there are too many, what is old of those who have most.
func (a *arrivals) sweep() {
	var v verdict
	a.mu.Lock()
	now := a.now.Add(1)
	open := 0
	for c := range a.conns {
		open += c.unanswered()
		for c.aged(now, lateTicks) {
			v.end(c, &a.late)
		}
		if c.stuck(now, lateTicks) {
			v.close(a, c)
		}
	}
	a.weigh()
	if a.crowd() {
		least, excess := a.share(), a.held()-a.bounds.bytes/2 // more than it must, so that it is not soon the same
		for c := range a.conns {
			excess -= a.relieve(&v, c, now, excess, least)
		}
		excess -= a.bounds.bytes / 2
		for c := range a.conns { // those who have less, if that is not enough
			excess -= a.relieve(&v, c, now, excess, 0)
		}
	}
	if a.waiting = open > 0; a.waiting {
		a.timer.Reset(a.bounds.patience / lateTicks)
	}
	for c := range a.conns {
		c.lasted = c.streams.Load()
	}
	a.mu.Unlock()
	v.execute(&a.unread)
}

// relieve takes what is old from a connection until it holds no more than least, or
// all are relieved of the excess. It returns how much that was.
func (a *arrivals) relieve(v *verdict, c *arrivalConn, now, excess, least int64) (freed int64) {
	held := c.held()
	if held <= least || excess <= 0 {
		return 0
	}
	if c.stuck(now, unreadTicks) {
		v.close(a, c)
		return held
	}
	for freed < excess && held-freed > least && c.aged(now, oldTicks) {
		before := c.bytes()
		v.end(c, &a.crowded)
		c.pause.Store(true)
		freed += requestCost + before - c.bytes()
	}
	return freed
}

// crowd reports whether all connections hold too much.
func (a *arrivals) crowd() bool { return a.held() > a.bounds.bytes }

// held is what all connections hold.
func (a *arrivals) held() int64 { return a.load.Load()*requestCost + a.bytes.Load() }

// share is how much a connection may hold if there is a crowd.
func (a *arrivals) share() int64 {
	return max(a.bounds.bytes/int64(max(len(a.conns), 1)), leastShare)
}

// count counts bytes that a connection has read, and returns those of all. Now and
// then it looks how many of them requests hold.
func (a *arrivals) count(n int) (read int64) {
	read = a.read.Add(int64(n))
	if alarm := a.alarm.Load(); read <= alarm || !a.alarm.CompareAndSwap(alarm, read+a.bounds.bytes/16) {
		return read
	}
	a.mu.Lock()
	a.weigh()
	a.mu.Unlock()
	return read
}

// weigh counts the bytes of requests that are not whole. It needs the lock.
func (a *arrivals) weigh() {
	var bytes int64
	for c := range a.conns {
		bytes += c.bytes()
	}
	a.bytes.Store(bytes)
}
