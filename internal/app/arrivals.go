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
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// arrivalBounds say how much of gRPC requests may wait for its rest. An Envoy
// sends a request in one piece, so that few are in parts at a time, and not for long.
type arrivalBounds struct {
	requests int           // each costs a goroutine and its headers
	bytes    int64         // on the wire
	patience time.Duration // for the rest of a request, give or take a tenth
	pause    time.Duration // in which a connection is not read that had too many, on average
}

var defaultArrivalBounds = arrivalBounds{
	requests: 500,
	bytes:    16 << 20, // sixteen of the largest requests that are permitted
	patience: 10 * time.Second,
	pause:    500 * time.Millisecond,
}

// arrivals are the requests of the gRPC server that are not whole yet. Beyond the
// bounds, connections with more than their share lose the oldest of their own, and
// are not read for a while, so that the others are served meanwhile.
//
// gRPC itself bounds the calls of a connection and the bytes of a call, but neither
// the calls nor the bytes of all.
type arrivals struct {
	bounds        arrivalBounds
	late, crowded ending

	read  atomic.Int64 // bytes that came on all connections
	alarm atomic.Int64 // when read is greater, it is time to look at the bytes

	mu      sync.Mutex
	conns   map[*arrivalConn]bool // those with requests that are not whole
	number  atomic.Int64          // of these requests; changed under the lock
	timer   *time.Timer
	waiting bool // timer will fire

	dispersing bool // disperse will be called
}

// arrival is a request that is not whole yet.
type arrival struct {
	conn   *arrivalConn
	place  *list.Element
	since  time.Time
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
		Help: "gRPC requests that were ended before they were whole, by reason: late, the rest did not come in time; crowded, too many requests or bytes of all connections waited for their rest.",
	}, []string{"reason"})
	reg.MustRegister(ended)
	a := &arrivals{
		bounds:  bounds,
		late:    ending{status.Newf(codes.DeadlineExceeded, "the rest of the request did not come within %v", bounds.patience), ended.WithLabelValues("late")},
		crowded: ending{status.New(codes.ResourceExhausted, "too many requests wait for their rest"), ended.WithLabelValues("crowded")},
		conns:   map[*arrivalConn]bool{},
	}
	a.timer = time.AfterFunc(math.MaxInt64, a.endLate)
	return a
}

// respite is what too many requests have to become whole. Those that have come
// whole, but wait for a processor, then are.
const respite = time.Millisecond

// overhead is about what a request takes on the wire beside its message.
const overhead = 64

// receive receives the message m of the call of ctx.
func (a *arrivals) receive(ctx context.Context, m any, receive func(any) error) error {
	from, _ := peer.FromContext(ctx)
	r := &arrival{conn: from.AuthInfo.(arrivalInfo).conn, call: grpc.ServerTransportStreamFromContext(ctx).(call)}
	a.begin(r, time.Now())
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
func (a *arrivals) begin(r *arrival, now time.Time) {
	a.mu.Lock()
	c := r.conn
	r.since, r.before = now, c.read.Load()-c.whole
	r.place = c.requests.PushBack(r)
	a.conns[c] = true
	a.number.Add(1)
	if !a.waiting {
		a.wait()
	}
	if a.crowd() && !a.dispersing {
		a.dispersing = true
		time.AfterFunc(respite, a.disperse)
	}
	a.mu.Unlock()
}

// finish removes a request, of which so many bytes are whole now, and tells why it
// was ended before, if it was.
func (a *arrivals) finish(r *arrival, whole int64) *ending {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.conn.whole += whole
	if r.ended == nil {
		a.remove(r)
	}
	return r.ended
}

func (a *arrivals) remove(r *arrival) {
	r.conn.requests.Remove(r.place)
	if r.conn.requests.Len() == 0 {
		delete(a.conns, r.conn)
	}
	a.number.Add(-1)
}

// end removes the oldest request of a connection and appends it to out, for tell.
func (a *arrivals) end(out []*arrival, c *arrivalConn, why *ending) []*arrival {
	r := c.oldest()
	r.ended = why
	a.remove(r)
	if why == &a.crowded {
		c.pause.Store(true)
	}
	return append(out, r)
}

// tell ends the calls of removed requests. It is called without the lock.
func tell(ended []*arrival) {
	for _, r := range ended {
		r.ended.count.Inc()
		_ = r.call.WriteStatus(r.ended.status) // or the client has gone
	}
}

// wait lets endLate look in a while.
func (a *arrivals) wait() {
	a.waiting = true
	a.timer.Reset(a.bounds.patience / 10)
}

// endLate ends the requests that came too long ago.
func (a *arrivals) endLate() {
	now := time.Now()
	var out []*arrival
	a.mu.Lock()
	for c := range a.conns {
		for c.requests.Len() > 0 && now.Sub(c.oldest().since) >= a.bounds.patience {
			out = a.end(out, c, &a.late)
		}
	}
	if a.waiting = false; len(a.conns) > 0 {
		a.wait()
	}
	a.mu.Unlock()
	tell(out)
}

// crowd tells whether there are too many requests.
func (a *arrivals) crowd() bool { return a.number.Load() > int64(a.bounds.requests) }

// disperse ends requests if there are too many: the oldest of each connection that
// has more than its share.
func (a *arrivals) disperse() {
	var out []*arrival
	a.mu.Lock()
	a.dispersing = false
	share := max(a.bounds.requests/max(len(a.conns), 1), 1)
	for c := range a.conns {
		for a.crowd() && c.requests.Len() > share {
			out = a.end(out, c, &a.crowded)
		}
	}
	a.mu.Unlock()
	tell(out)
}

// count counts bytes that a connection has read. Now and then it looks whether
// requests hold too many, and ends those of the connection that holds most.
func (a *arrivals) count(n int) {
	read := a.read.Add(int64(n))
	if alarm := a.alarm.Load(); read <= alarm || !a.alarm.CompareAndSwap(alarm, read+a.bounds.bytes/16) {
		return
	}
	var out []*arrival
	a.mu.Lock()
	for {
		most, held := a.held()
		if held <= a.bounds.bytes {
			break
		}
		out = a.end(out, most, &a.crowded)
	}
	a.mu.Unlock()
	tell(out)
}

// held returns how many bytes the requests hold, and the connection that holds most.
func (a *arrivals) held() (most *arrivalConn, held int64) {
	for c := range a.conns {
		held += c.held()
		if most == nil || c.held() > most.held() {
			most = c
		}
	}
	return most, held
}
