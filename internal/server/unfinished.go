package server

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

// unfinishedBounds say how much of gRPC requests may wait for its rest, or for its
// answer to be sent. An Envoy sends a request in one piece and reads its answers, so
// that few wait at a time, and not for long.
type unfinishedBounds struct {
	bytes      int64         // what all connections may hold, of which each request is requestCost
	streams    int64         // that last, such as followed health checks
	ownStreams int64         // of one connection
	timeout    time.Duration // for the rest of a request, or with a client that does not read
	pause      time.Duration // in which a connection is not read that had too many, on average
	conns      int           // connections; 0: any number
}

var defaultUnfinishedBounds = unfinishedBounds{
	bytes:      32 << 20,
	streams:    512,
	ownStreams: 8,
	timeout:    10 * time.Second,
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

// Ages are counted in ticks of a hundredth of the timeout. The clock stands still while
// the process has no processor, which makes no request old.
const (
	oldTicks    = 2   // a request that came in one piece is never so old
	unreadTicks = 10  // for answers, if there is a crowd
	lateTicks   = 100 // at any rate
)

// unfinished is the requests of the gRPC server that wait for their rest, or for their
// answer to be sent. Beyond the bounds the connections that hold most are read little
// by little, and lose what is old.
//
// gRPC itself bounds the calls of a connection and the bytes of a call, but neither
// the calls nor the bytes of all.
type unfinished struct {
	bounds                unfinishedBounds
	late, crowded, unread ending

	load    atomic.Int64 // see unfinishedConn.load
	bytes   atomic.Int64 // of requests that are not whole, when they were last counted
	streams atomic.Int64
	read    atomic.Int64 // bytes that came on all connections
	alarm   atomic.Int64 // when read is greater, it is time to count the bytes
	now     atomic.Int64 // in ticks

	mu      sync.Mutex
	conns   map[*unfinishedConn]bool // all that are open
	timer   *time.Timer
	waiting bool // timer will fire
}

// unfinishedRequest is a request that is not whole yet.
type unfinishedRequest struct {
	conn   *unfinishedConn
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

func newUnfinished(bounds unfinishedBounds, reg prometheus.Registerer) *unfinished {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "weir", Name: "grpc_unfinished_requests_total",
		Help: "gRPC requests that were ended before they were finished, by reason: late, the rest did not come in time; crowded, too many requests or bytes of all connections waited for their rest; unread, the client did not read its answers, and its connection was closed.",
	}, []string{"reason"})
	reg.MustRegister(ended)
	u := &unfinished{
		bounds:  bounds,
		late:    ending{status.Newf(codes.DeadlineExceeded, "the rest of the request did not come within %v", bounds.timeout), ended.WithLabelValues("late")},
		crowded: ending{status.New(codes.ResourceExhausted, "too many requests wait for their rest"), ended.WithLabelValues("crowded")},
		unread:  ending{nil, ended.WithLabelValues("unread")},
		conns:   map[*unfinishedConn]bool{},
	}
	u.timer = time.AfterFunc(math.MaxInt64, u.sweep)
	return u
}

// overhead is about what a request takes on the wire beside its message.
const overhead = 64

// receive receives the message m of the call of ctx.
func (u *unfinished) receive(ctx context.Context, m any, receive func(any) error) error {
	r := &unfinishedRequest{conn: connOf(ctx), call: grpc.ServerTransportStreamFromContext(ctx).(call)}
	u.begin(r)
	err := receive(m)
	whole := 0
	if err == nil {
		whole = overhead + wireSize(m)
	}
	if ended := u.finish(r, int64(whole)); ended != nil {
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
func (u *unfinished) begin(r *unfinishedRequest) {
	u.mu.Lock()
	c := r.conn
	r.since, r.before = u.now.Load(), c.read.Load()-c.whole
	r.place = c.requests.PushBack(r)
	u.mu.Unlock()
}

// finish removes a request, of which so many bytes are whole now, and says why it
// was ended before, if it was.
func (u *unfinished) finish(r *unfinishedRequest, whole int64) *ending {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.conn.whole += whole
	if r.ended == nil {
		r.conn.requests.Remove(r.place)
	}
	return r.ended
}

// verdict is what a sweep has found: calls to end, and connections to close.
type verdict struct {
	calls []*unfinishedRequest
	conns []*unfinishedConn
}

// end removes the oldest request of a connection.
func (v *verdict) end(c *unfinishedConn, why *ending) {
	r := c.oldest()
	r.ended = why
	c.requests.Remove(r.place)
	v.calls = append(v.calls, r)
}

// close removes a connection.
func (v *verdict) close(u *unfinished, c *unfinishedConn) {
	delete(u.conns, c)
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
func (u *unfinished) add(c *unfinishedConn, n int64) {
	c.load.Add(n)
	u.load.Add(n)
}

// compared is how many connections are compared to find one that gives way.
const compared = 64

// giveWay returns the connection that gives way to a new one, or nil. Of some it is
// the one without requests that was read longest ago, or else the new one. It needs
// the lock.
func (u *unfinished) giveWay(newest *unfinishedConn) *unfinishedConn {
	if u.bounds.conns == 0 || len(u.conns) <= u.bounds.conns {
		return nil
	}
	idlest, left := newest, compared
	for c := range u.conns { // in random order
		if c != newest && c.unanswered() == 0 && (idlest == newest || c.last.Load() < idlest.last.Load()) {
			idlest = c
		}
		if left--; left == 0 {
			break
		}
	}
	delete(u.conns, idlest)
	return idlest
}

// watch lets sweep look in a tick.
func (u *unfinished) watch() {
	u.mu.Lock()
	if !u.waiting {
		u.waiting = true
		u.timer.Reset(u.bounds.timeout / lateTicks)
	}
	u.mu.Unlock()
}

// sweep ends the requests that came too long ago, those of whom the answers cannot be
// sent, and if there are too many, what is old of those who have most.
func (u *unfinished) sweep() {
	var v verdict
	u.mu.Lock()
	now := u.now.Add(1)
	open := 0
	for c := range u.conns {
		open += c.unanswered()
		for c.aged(now, lateTicks) {
			v.end(c, &u.late)
		}
		if c.stuck(now, lateTicks) {
			v.close(u, c)
		}
	}
	u.weigh()
	if u.crowd() {
		least, excess := u.share(), u.held()-u.bounds.bytes/2 // more than it must, so that it is not soon the same
		for c := range u.conns {
			excess -= u.relieve(&v, c, now, excess, least)
		}
		excess -= u.bounds.bytes / 2
		for c := range u.conns { // those who have less, if that is not enough
			excess -= u.relieve(&v, c, now, excess, 0)
		}
	}
	if u.waiting = open > 0; u.waiting {
		u.timer.Reset(u.bounds.timeout / lateTicks)
	}
	for c := range u.conns {
		c.lasted = c.streams.Load()
	}
	u.mu.Unlock()
	v.execute(&u.unread)
}

// relieve takes what is old from a connection until it holds no more than least, or
// all are relieved of the excess. It returns how much that was.
func (u *unfinished) relieve(v *verdict, c *unfinishedConn, now, excess, least int64) (freed int64) {
	held := c.held()
	if held <= least || excess <= 0 {
		return 0
	}
	if c.stuck(now, unreadTicks) {
		v.close(u, c)
		return held
	}
	for freed < excess && held-freed > least && c.aged(now, oldTicks) {
		before := c.bytes()
		v.end(c, &u.crowded)
		c.pause.Store(true)
		freed += requestCost + before - c.bytes()
	}
	return freed
}

// crowd reports whether all connections hold too much.
func (u *unfinished) crowd() bool { return u.held() > u.bounds.bytes }

// held is what all connections hold.
func (u *unfinished) held() int64 { return u.load.Load()*requestCost + u.bytes.Load() }

// share is how much a connection may hold if there is a crowd.
func (u *unfinished) share() int64 {
	return max(u.bounds.bytes/int64(max(len(u.conns), 1)), leastShare)
}

// count counts bytes that a connection has read, and returns those of all. Now and
// then it looks how many of them requests hold.
func (u *unfinished) count(n int) (read int64) {
	read = u.read.Add(int64(n))
	if alarm := u.alarm.Load(); read <= alarm || !u.alarm.CompareAndSwap(alarm, read+u.bounds.bytes/16) {
		return read
	}
	u.mu.Lock()
	u.weigh()
	u.mu.Unlock()
	return read
}

// weigh counts the bytes of requests that are not whole. It needs the lock.
func (u *unfinished) weigh() {
	var bytes int64
	for c := range u.conns {
		bytes += c.bytes()
	}
	u.bytes.Store(bytes)
}
