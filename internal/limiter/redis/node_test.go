package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// nodeFixture is a store on a cluster, and counters in several slots of its last
// node. Each counter has used one unit.
type nodeFixture struct {
	*testing.T
	store   *store
	metrics prometheus.Gatherer
	servers []*testenv.Redis
	admin   *redis.Client // of the last of them, connected before there is a password
	cut     *cutter       // of the connections to nodes
	keys    []string
	node    *node // of keys
}

func newNodeFixture(t *testing.T) *nodeFixture { return newNodeFixtureWith(t, "") }

// newNodeFixtureWith returns one whose nodes want a password, unless that is empty.
func newNodeFixtureWith(t *testing.T, password string) *nodeFixture {
	o, _, servers := startCluster(t, 0)
	var admin *redis.Client
	for _, server := range servers {
		admin = connect(t, server)
		do(t, admin, "config", "set", "requirepass", password)
	}
	o.Main.Password = password
	reg := prometheus.NewRegistry()
	o.Registerer = reg
	f := &nodeFixture{T: t, store: open(t, o), metrics: reg, servers: servers, admin: admin, cut: &cutter{}}
	f.store.main.client.cluster().OnNewNode(func(c *redis.Client) { c.AddHook(f.cut) })
	for n := 0; len(f.keys) < 4; n++ {
		if key := fmt.Sprintf("{%d}", n); limiter.Slot([]byte(key)) > 2*limiter.Slots/3 {
			f.keys = append(f.keys, key)
		}
	}
	for _, key := range f.keys {
		mustAsk(t, f.store, key, perYear)
	}
	f.node = f.store.main.nodeOf(f.keys[0])
	for _, key := range f.keys {
		if f.node == nil || f.store.main.nodeOf(key) != f.node {
			t.Fatalf("the node of %s is not that of %s, or not known", key, f.keys[0])
		}
	}
	return f
}

func (f *nodeFixture) lane(key string) *lane { return f.store.main.lane([]byte(key)) }

// hold keeps the node from making calls, until serve.
func (f *nodeFixture) hold() {
	f.Helper()
	testenv.Until(f, "no calls are made", func() bool {
		for _, key := range f.keys {
			q := f.lane(key).queue
			q.mu.Lock()
			busy := q.serving
			q.mu.Unlock()
			if busy {
				return false
			}
		}
		f.node.mu.Lock()
		defer f.node.mu.Unlock()
		rests := !f.node.serving
		f.node.serving = true
		return rests
	})
}

// send has hits on a counter wait for the next call of the node.
func (f *nodeFixture) send(key string, hits int, cost uint64) *batch {
	f.Helper()
	l := f.lane(key)
	b, _, start, err := l.add(f.Context(), slices.Repeat([]limiter.Hit{hit(key, perYear, cost)}, hits), false, noDeadline)
	if err != nil || !start {
		f.Fatalf("%s: error %v, first in its lane: %t", key, err, start)
	}
	f.node.add(l)
	return b
}

// used returns what a counter of a batch has used, and the error of the batch.
func used(b *batch) (int64, error) {
	<-b.done
	if b.err != nil {
		return 0, b.err
	}
	var out [1]limiter.Decision
	states, err := b.reply.outcomes(0, out[:], nil)
	if err != nil {
		return 0, err
	}
	return states[0].Used, nil
}

// charge charges a unit to each counter, in one pipeline.
func (f *nodeFixture) charge() []*batch {
	f.Helper()
	f.hold()
	var batches []*batch
	for _, key := range f.keys {
		batches = append(batches, f.send(key, 1, 1))
	}
	f.node.serve()
	return batches
}

// wantUsed charges as charge does. All counters must have used so much then.
func (f *nodeFixture) wantUsed(when string, want int64) {
	f.Helper()
	for i, b := range f.charge() {
		if got, err := used(b); err != nil || got != want {
			f.Errorf("%s: %s has used %d, error %v; want %d", when, f.keys[i], got, err, want)
		}
	}
}

func TestSlotsOfANodeShareACall(t *testing.T) {
	f := newNodeFixture(t)
	f.hold()
	for i, hits := range []int{maxBatch / 2, maxBatch / 2, 1, maxBatch} {
		f.send(f.keys[i], hits, 0)
	}
	for n, want := range [][]string{f.keys[:2], f.keys[2:3], f.keys[3:]} {
		list := f.node.next()
		var got []string
		for _, w := range list {
			got = append(got, string(w.batch.keys.bytes[:w.batch.keys.ends[0]]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("call %d: batches of %v, want those of %v", n, got, want)
		}
		f.node.call(list)
	}
	f.node.serve()
}

// TestPipelineOfWhichASlotMoves asks for several counters at once while the slot of
// one of them moves to another node.
func TestPipelineOfWhichASlotMoves(t *testing.T) {
	f := newNodeFixture(t)
	key := f.keys[1]
	slot := limiter.Slot([]byte(key))
	from, to := f.admin, connect(t, f.servers[0])
	fromID, toID := do(t, from, "cluster", "myid"), do(t, to, "cluster", "myid")
	host, port, _ := net.SplitHostPort(f.servers[0].Addr())
	f.wantUsed("before", 2)
	do(t, to, "cluster", "setslot", slot, "importing", fromID)
	do(t, from, "cluster", "setslot", slot, "migrating", toID)
	f.wantUsed("while the slot is to move", 3)
	do(t, from, "migrate", host, port, key, 0, 5000)
	f.wantUsed("while only the counter has moved", 4) // ASK
	for _, server := range f.servers {
		do(t, connect(t, server), "cluster", "setslot", slot, "node", toID)
	}
	f.wantUsed("after the slot has moved", 5) // MOVED
	testenv.Until(t, "the slot has its new node", func() bool {
		n := f.store.main.nodeOf(key)
		return n != nil && n != f.node
	})
	if d := mustAsk(t, f.store, key, perYear); d.Used != 6 {
		t.Errorf("%d used, want 6", d.Used)
	}
	if n := value(t, f.metrics, "weir_redis_errors_total", kindCluster); n != 0 {
		t.Errorf("%v errors of the cluster", n)
	}
}

// TestPipelineThatBreaks breaks a connection after the first reply. The other
// requests fail and are not repeated, for Redis has charged them.
func TestPipelineThatBreaks(t *testing.T) {
	f := newNodeFixture(t)
	f.cut.after(1)
	for i, b := range f.charge() {
		got, err := used(b)
		if i == 0 && (err != nil || got != 2) {
			t.Errorf("answered: %d used, error %v; want 2", got, err)
		}
		if i > 0 && (!errors.Is(err, limiter.ErrUnavailable) || classify(err) != kindConnection) {
			t.Errorf("not answered: got error %v, want one of kind %s", err, kindConnection)
		}
	}
	f.wantUsed("on a new connection", 3)
}

// TestPipelineToALostNode has a node die. Requests for it fail, those for others do
// not.
func TestPipelineToALostNode(t *testing.T) {
	f := newNodeFixture(t)
	f.servers[2].Stop()
	for _, b := range f.charge() {
		if _, err := used(b); !errors.Is(err, limiter.ErrUnavailable) || classify(err) != kindConnection {
			t.Errorf("got error %v, want one of kind %s", err, kindConnection)
		}
	}
	mustAsk(t, f.store, "{b}counter", perYear) // slot 3300, of the first node
}

// TestPipelineOfWhichTheScriptIsUnknown gives back a charge beside others, and has Redis
// know the script, or not.
func TestPipelineOfWhichTheScriptIsUnknown(t *testing.T) {
	f := newNodeFixture(t)
	give := f.keys[3]
	for n, known := range []bool{true, false} {
		charged := f.state(give)
		do(t, f.admin, "script", "flush")
		if known {
			do(t, f.admin, "script", "load", scriptText)
		}
		f.hold()
		var batches []*batch
		for _, key := range f.keys[:3] {
			batches = append(batches, f.send(key, 1, 1))
		}
		l := f.lane(give)
		b, start := l.queue.addGiveBacks([]giveBack{{key: []byte(give), limit: perYear, cost: 1, charged: charged}})
		if !start {
			t.Fatal("the lane is busy")
		}
		f.node.add(l)
		f.node.serve()
		for i, b := range batches {
			if got, err := used(b); err != nil || got != int64(n+2) {
				t.Errorf("%s has used %d, error %v; want %d", f.keys[i], got, err, n+2)
			}
		}
		if <-b.done; b.err != nil {
			t.Errorf("giving back: %v", b.err)
		}
		if d := mustAsk(t, f.store, give, perYear); d.Used != 1 {
			t.Errorf("%d used after giving one of one back and charging one, want 1", d.Used)
		}
	}
	if n := value(t, f.metrics, "weir_redis_errors_total", kindNoScript); n < 1+4 {
		t.Errorf("%v unknown scripts are counted, want 4 and that of the set-up", n)
	}
}

// state reads the state of a counter.
func (f *nodeFixture) state(key string) limiter.State {
	f.Helper()
	b, place, err := f.lane(key).send(f.Context(), []limiter.Hit{hit(key, perYear, 0)}, false, noDeadline)
	if err != nil {
		f.Fatal(err)
	}
	<-b.done
	var out [1]limiter.Decision
	states, err := b.reply.outcomes(place, out[:], nil)
	if err != nil {
		f.Fatal(err)
	}
	return states[0]
}

// TestPipelineWithAWrongPassword has Redis refuse a new connection, before it reads the
// commands of a pipeline.
func TestPipelineWithAWrongPassword(t *testing.T) {
	f := newNodeFixtureWith(t, "swordfish")
	do(t, f.admin, "config", "set", "requirepass", "another")
	do(t, f.admin, "client", "kill", "type", "normal", "skipme", "yes")
	for _, b := range f.charge() { // on the connection that was closed
		<-b.done
	}
	for _, b := range f.charge() {
		if _, err := used(b); !errors.Is(err, limiter.ErrUnavailable) || classify(err) != kindAuth {
			t.Errorf("got error %v, want one of kind %s", err, kindAuth)
		}
	}
}

// cutter is a hook that breaks a connection before a reply of scripts.
type cutter struct {
	mu    sync.Mutex
	armed bool
	left  int // replies that pass
}

// after breaks the connection after so many replies.
func (c *cutter) after(replies int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left = true, replies
}

func (c *cutter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		return cutConn{conn, c}, err
	}
}

func (*cutter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (*cutter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// cutConn is a connection that a cutter breaks.
type cutConn struct {
	net.Conn
	cutter *cutter
}

func (c cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.cutter.mu.Lock()
	defer c.cutter.mu.Unlock()
	for at := 0; c.cutter.armed; c.cutter.left-- {
		next := bytes.IndexByte(p[at:n], '*')
		if next < 0 {
			break
		}
		if at += next; c.cutter.left == 0 {
			c.cutter.armed = false
			c.Close()
			return at, err
		}
		at++
	}
	return n, err
}
