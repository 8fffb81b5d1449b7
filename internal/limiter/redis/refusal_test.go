package redis

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/queue"
	"weir/internal/testenv"
)

// A full Redis rejects writes. Denials in the same call must not fail. Otherwise a flood of new
// keys could disable used-up limits.
func TestRefusedWritesFailTheirOwnRequestsOnly(t *testing.T) {
	s, two, one := newFixture(t, Options{}, "--maxmemory-policy", "noeviction"), yearly(2), atOncePerHour(1)
	mustDecide(t, s, holding("held", one, 1, false))
	mustAsk(t, s, "full", two)
	mustAsk(t, s, "full", two)
	mustAsk(t, s, "half", two)
	s.do("config", "set", "maxmemory", "1kb")
	if _, denied := mustDecide(t, s, holding("held", one, 2, false)); !denied {
		t.Error("a full Redis does not deny a second hold")
	}

	c := queue.NewCall(0, 0)
	requests := []struct {
		hits   []limiter.Hit
		denied bool
		fails  bool
	}{
		{hits: []limiter.Hit{hit("full", two, 1)}, denied: true},
		{hits: []limiter.Hit{hit("new", two, 1)}, fails: true},
		{hits: []limiter.Hit{hit("full", two, 0)}, denied: true},
		{hits: []limiter.Hit{hit("half", two, 0)}, fails: true}, // shares its counter with the next request
		{hits: []limiter.Hit{hit("half", two, 1)}, fails: true},
		{hits: []limiter.Hit{hit("half", two, 1)}, fails: true}, // over the limit only because of a unit that is not stored
		{hits: []limiter.Hit{hit("other", two, 1), hit("full", two, 1)}, denied: true},
		{hits: []limiter.Hit{holding("new hold", one, 1, false), holding("held", one, 1, true)}, fails: true},
	}
	for _, q := range requests {
		c.Batch.Add(q.hits, false)
	}
	if call(s.Store, c); c.Err != nil {
		t.Fatalf("the whole call failed: %v", c.Err)
	}
	for i, q := range requests {
		denied, err := s.main.result(queue.Ticket{Call: c, Request: i}, q.hits, make([]limiter.Decision, len(q.hits)))
		if denied != q.denied || (err != nil) != q.fails {
			t.Errorf("request %d: denied %v, error %v; want denied %v, failed %v", i, denied, err, q.denied, q.fails)
		}
		if q.fails && (!errors.Is(err, limiter.ErrUnavailable) || conn.Classify(err) != conn.KindOOM) {
			t.Errorf("request %d: error %v of kind %s, want one of kind %s", i, err, conn.Classify(err), conn.KindOOM)
		}
	}
	if out, _ := mustDecide(t, s, holding("held", one, 1, true)); out[0].Used != 0 || out[0].Already {
		t.Errorf("a full Redis does not release a hold: %+v", out[0])
	}
	testenv.Equal(t, s.do("exists", "held", "new hold").(int64), 0, "keys of holds that are left")
	s.do("config", "set", "maxmemory", "0")
	testenv.Equal(t, mustAsk(t, s, "half", two).Used, 2, "used without the refused requests")
}

// A call is not repeated if its reply is lost, because Redis may have counted it.
func TestALostReplyIsNotAskedForAgain(t *testing.T) {
	r := testenv.RedisServer(t)
	p := newProxy(t, r.Addr())
	s := open(t, Options{Main: at(p.addr)})
	mustAsk(t, s, "k", perYear)
	p.swallow.Store(true)
	mustFail(t, s)
	p.swallow.Store(false)
	testenv.Equal(t, mustAsk(t, s, "k", perYear).Used, 3, "used after three requests")
}

// After a failover, an address may lead to another Redis while open connections still lead to
// the old one.
func TestADemotedPrimaryIsLeft(t *testing.T) {
	t.Parallel()
	old, promoted := testenv.RedisServer(t), testenv.RedisServer(t)
	p := newProxy(t, old.Addr())
	s := open(t, Options{Main: at(p.addr)})
	mustAsk(t, s, "k", perYear)
	target := promoted.Addr()
	p.target.Store(&target)
	do(t, connect(t, old), "replicaof", "127.0.0.1", "1")
	testenv.Equal(t, conn.Classify(mustFail(t, s)), conn.KindReadOnly, "kind of the error")
	mustAsk(t, s, "k", perYear)
	testenv.Equal(t, do(t, connect(t, promoted), "exists", "k").(int64), 1, "counters on the new primary")
}

// proxy forwards bytes between a store and its Redis. If swallow is set, it breaks the connection
// instead of sending a reply.
type proxy struct {
	addr    string
	target  atomic.Pointer[string]
	swallow atomic.Bool

	mu      sync.Mutex
	clients []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{}
	p.target.Store(&target)
	p.addr = listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", *p.target.Load())
		if err != nil {
			client.Close()
			return
		}
		p.mu.Lock()
		p.clients = append(p.clients, client)
		p.mu.Unlock()
		go func() { _, _ = io.Copy(server, client); server.Close() }()
		defer client.Close()
		buf := make([]byte, 4096)
		for {
			n, err := server.Read(buf)
			if err != nil || p.swallow.Load() {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	return p
}
