package redis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/queue"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is a timeout that no call to a healthy Redis reaches, even on a busy machine.
const long = 20 * time.Second

var (
	perMinute = storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Minute})
	// perYear is for tests that count by Redis' own clock. Its window does not end during a
	// test.
	perYear      = yearly(100)
	firstHitYear = storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Year, Algorithm: limiter.FirstHit})
	slidingYear  = storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Year, Algorithm: limiter.SlidingWindow})
	bucketYear   = storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Year, Algorithm: limiter.TokenBucket})
)

// at returns a Server for the Redis at an address.
func at(url string) Server { return Server{Addr: url, Timeout: long} }

// open returns a store that is closed when the test ends. By default, its callers wait for the
// time limit of a call.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	o.Wait = cmp.Or(o.Wait, o.Main.Timeout)
	if o.PerSecond != nil {
		second := *o.PerSecond
		second.Timeout = cmp.Or(second.Timeout, o.Main.Timeout)
		o.PerSecond = &second
	}
	s := New(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// fixture is a store with its own Redis.
type fixture struct {
	testing.TB
	*Store
	redis *testenv.Redis
	admin *redis.Client // for direct changes of Redis
	reg   *prometheus.Registry
}

// newFixture starts a Redis with additional arguments, and opens a store on it.
func newFixture(t testing.TB, o Options, args ...string) *fixture {
	t.Helper()
	f := &fixture{TB: t, redis: testenv.RedisServer(t, args...), reg: prometheus.NewRegistry()}
	f.admin = connect(t, f.redis)
	o.Main.Addr, o.Main.Timeout, o.Registerer = f.redis.Addr(), cmp.Or(o.Main.Timeout, long), f.reg
	f.Store = open(t, o)
	return f
}

// do sends a command to Redis. The command must succeed.
func (f *fixture) do(args ...any) any {
	f.Helper()
	return do(f, f.admin, args...)
}

// value returns a metric of the store; see the function value.
func (f *fixture) value(name string, k conn.Kind) float64 {
	f.Helper()
	return value(f, f.reg, name, k)
}

// calls returns the number of the store's calls to Redis.
func (f *fixture) calls() int { return int(f.value("weir_redis_calls_total", "")) }

// openAs opens a store as a user with access to all keys and the given ACL rules.
func (f *fixture) openAs(t testing.TB, rules ...string) *Store {
	t.Helper()
	command := []any{"acl", "setuser", "weir", "reset", "on", ">pw", "~*"}
	for _, rule := range rules {
		command = append(command, rule)
	}
	f.do(command...)
	return open(t, Options{Main: Server{Addr: f.redis.Addr(), Username: "weir", Password: "pw", Timeout: long}})
}

// pause stops all writes in Redis until CLIENT UNPAUSE.
func (f *fixture) pause() {
	f.Helper()
	f.do("client", "pause", 2*long.Milliseconds(), "write")
}

// listen calls serve for each connection to the returned address until the test ends. serve must
// close the connection.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

// connect returns a client of r for direct changes.
func connect(t testing.TB, r *testenv.Redis) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.Addr(), ReadTimeout: long})
	t.Cleanup(func() { c.Close() })
	return c
}

// do sends a command. The command must succeed.
func do(t testing.TB, c *redis.Client, args ...any) any {
	t.Helper()
	reply, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// ask requests one unit of a limit.
func ask(ctx context.Context, s limiter.Store, key string, limit *limiter.Limit) (limiter.Decision, error) {
	var out [1]limiter.Decision
	_, err := s.Decide(ctx, []limiter.Hit{{Limit: limit, Key: []byte(key), Cost: 1}}, out[:])
	return out[0], err
}

// mustAsk is like ask, but an error fails the test.
func mustAsk(t testing.TB, s limiter.Store, key string, limit *limiter.Limit) limiter.Decision {
	t.Helper()
	d, err := ask(context.Background(), s, key, limit)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return d
}

// mustDecide decides a request. An error fails the test.
func mustDecide(t testing.TB, s limiter.Store, hits ...limiter.Hit) (out []limiter.Decision, denied bool) {
	t.Helper()
	out = make([]limiter.Decision, len(hits))
	denied = testenv.Must(s.Decide(t.Context(), hits, out))(t)
	return out, denied
}

// untilDecides waits until a request succeeds.
func untilDecides(t testing.TB, s limiter.Store) {
	t.Helper()
	testenv.Until(t, "requests are decided", func() bool {
		_, err := ask(t.Context(), s, "k", perYear)
		return err == nil
	})
}

// hit returns a hit with a cost.
func hit(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Limit: l, Key: []byte(key), Cost: cost}
}

// refund returns a hit that refunds a cost.
func refund(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Limit: l, Key: []byte(key), Cost: cost, Refund: true}
}

func yearly(amount uint64) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Year})
}

// mustFail sends a request that must fail because the store is unavailable.
func mustFail(t testing.TB, s limiter.Store) error {
	t.Helper()
	_, err := ask(context.Background(), s, "k", perYear)
	if !errors.Is(err, limiter.ErrUnavailable) {
		t.Fatalf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
	}
	return err
}

// value returns a counter or gauge by its name and, unless k is empty, its kind.
func value(t testing.TB, reg prometheus.Gatherer, name string, k conn.Kind) float64 {
	t.Helper()
	families := testenv.Must(reg.Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (k == "" || m.GetLabel()[0].GetValue() == string(k)) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no counter %s %s", name, k)
	return 0
}

// call sends a batch to a store's Redis.
func call(s *Store, c *queue.Call) {
	s.main.queues.Run(context.Background(), nil, []*queue.Call{c}, false)
}
