// Package limitcases holds tests only: limits that people asked for, with their
// very numbers. They read as examples of what a limit promises, in memory and on Redis.
//
//   - cases_test.go: what each admits, second by second; and a budget per hour that a
//     client cannot lose by asking too often.
//   - herd_test.go: many workers that wait as they are told, on a small limit.
//
// That every store decides each request as limiter.Decide does is shown by
// storetest; the arithmetic of the algorithms is judged in package limiter.
package limitcases

import (
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// patience is longer than anything takes on a busy machine.
const patience = 20 * time.Second

// noon is the start of an hour, and oddTime in the middle of every period that one could
// count from the epoch.
var (
	noon    = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	oddTime = time.Date(2026, time.January, 2, 12, 34, 17, 123_456_000, time.UTC)
)

// clock is a clock that stands where it is set.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time  { return time.UnixMicro(c.micros.Load()) }
func (c *clock) set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// server is one Weir, as its clients see it.
type server struct {
	testing.TB
	store limiter.Store
}

// ask sends a request and returns the decision of its first hit.
func (r server) ask(hits ...limiter.Hit) (first limiter.Decision, admitted bool) {
	r.Helper()
	out := make([]limiter.Decision, len(hits))
	denied, err := r.store.Decide(r.Context(), hits, out)
	if err != nil {
		r.Errorf("Decide: %v", err) // Fatalf is not for the many clients of an attack
	}
	return out[0], !denied
}

// expectAdmitted sends a request n times and wants it admitted each time.
func (r server) expectAdmitted(n int, hits ...limiter.Hit) {
	r.Helper()
	for i := range n {
		if d, admitted := r.ask(hits...); !admitted {
			r.Fatalf("%s: request %d of %d is denied, want all admitted: %+v", hits[0].Key, i+1, n, d)
		}
	}
}

// expectDenied sends a request and wants it denied, with so long to wait.
func (r server) expectDenied(retry time.Duration, hits ...limiter.Hit) {
	r.Helper()
	if d, admitted := r.ask(hits...); admitted || d.RetryAfter != retry {
		r.Fatalf("%s: admitted %v, retry after %v, want it denied and to retry after %v", hits[0].Key, admitted, d.RetryAfter, retry)
	}
}

// hit asks for one unit of a limit for the identifier that a descriptor names,
// such as ip=192.0.2.1.
func hit(limit *limiter.Limit, key, value string) limiter.Hit {
	entries := []limiter.Entry{{Key: key, Value: value}}
	return limiter.Hit{Limit: limit, Key: limit.AppendKind(limiter.Keys{}.Append(nil, "api", entries, nil)), Cost: 1}
}

// onRedis is a server on a Redis that several may share. Without now, the clock
// of Redis tells the time.
func onRedis(t testing.TB, r interface{ Addr() string }, now func() time.Time) server {
	t.Helper()
	s, err := redis.New(redis.Options{Main: redis.Server{Addr: r.Addr(), Timeout: patience}, Wait: patience, Now: now})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return server{t, s}
}

// onEachStore runs a case in memory and on Redis, both on the clock that it sets.
func onEachStore(t *testing.T, run func(r server, c *clock)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := new(clock)
		run(server{t, memory.New(memory.Options{Now: c.now})}, c)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		c := new(clock)
		run(onRedis(t, testenv.RedisServer(t), c.now), c)
	})
}

// step is what happens at a time since the start of a case.
type step struct {
	at       time.Duration
	user     string
	admitted int           // requests
	denied   time.Duration // how long the next one is to wait; 0: there is none
}

const micro = time.Microsecond

var cases = []struct {
	name  string
	spec  limiter.Spec
	start time.Time
	steps []step
}{
	{"20 requests per minute per API key", limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Minute}, noon, []step{
		{15 * time.Second, "k-1", 20, 45 * time.Second},
		{15 * time.Second, "k-2", 20, 45 * time.Second},
		{time.Minute, "k-1", 20, time.Minute},
	}},
	{"240 requests an hour per identifier", limiter.Spec{RequestsPerUnit: 240, Unit: limiter.Hour}, noon, []step{
		{15 * time.Minute, "alice", 240, 45 * time.Minute},
		{15 * time.Minute, "bob", 1, 0}, // an identifier's budget is its own
		{time.Hour - micro, "alice", 0, micro},
		{time.Hour, "alice", 240, time.Hour},
	}},
	// To the microsecond, and not extended by later requests, admitted or denied.
	{"5 requests per 10 seconds from the first on", limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Second, UnitMultiplier: 10, Algorithm: limiter.FirstHit}, oddTime, []step{
		{0, "", 1, 0}, {time.Second, "", 1, 0}, {2 * time.Second, "", 1, 0}, {3 * time.Second, "", 1, 0},
		{4 * time.Second, "", 1, 6 * time.Second}, {9 * time.Second, "", 0, time.Second}, {10*time.Second - micro, "", 0, micro},
		{10 * time.Second, "", 5, 10 * time.Second},
	}},
	{"20 requests per 30 seconds from the first on", limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 30, Algorithm: limiter.FirstHit}, oddTime, []step{
		{0, "", 1, 0}, {time.Second, "", 18, 0}, {19 * time.Second, "", 1, 11 * time.Second}, {30*time.Second - micro, "", 0, micro},
		{30 * time.Second, "", 20, 30 * time.Second}, // what is admitted now begins the next 30 s
	}},
	// Ten at once, then one every 6 s.
	{"10 per 60 seconds with GCRA", limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Second, UnitMultiplier: 60, Algorithm: limiter.TokenBucket}, oddTime, []step{
		{0, "", 10, 6 * time.Second}, {6*time.Second - micro, "", 0, micro}, {6 * time.Second, "", 1, 6 * time.Second},
		{12*time.Second - micro, "", 0, micro}, {12 * time.Second, "", 1, 6 * time.Second},
	}},
}

func TestCases(t *testing.T) {
	t.Parallel()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			limit := storetest.Must(tt.spec)
			onEachStore(t, func(r server, c *clock) {
				for _, s := range tt.steps {
					c.set(tt.start.Add(s.at))
					h := hit(limit, "user", s.user)
					r.expectAdmitted(s.admitted, h)
					if s.denied > 0 {
						r.expectDenied(s.denied, h)
					}
				}
			})
		})
	}
}

// "10 per second, 125 per minute and 250 per hour together, for two identifiers
// in one request."
var threeLimits = []*limiter.Limit{
	storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Second}),
	storetest.Must(limiter.Spec{RequestsPerUnit: 125, Unit: limiter.Minute}),
	storetest.Must(limiter.Spec{RequestsPerUnit: 250, Unit: limiter.Hour}),
}

// from is a request of a user from an address: every limit for both.
func from(ip, user string) (hits []limiter.Hit) {
	for _, limit := range threeLimits {
		hits = append(hits, hit(limit, "ip", ip), hit(limit, "user", user))
	}
	return hits
}

// A client that sends 100 requests a second for an hour gets exactly what the
// hour's limit allows. A counter that denied requests use up as well would give it
// the requests of two seconds, and then nothing for the hour.
func TestDeniedRequestsDoNotEatTheHour(t *testing.T) {
	t.Parallel()
	const requests, every = 360_000, 10 * time.Millisecond
	c := new(clock)
	r := server{t, memory.New(memory.Options{Now: c.now})}
	hits := from("192.0.2.1", "alice")
	admitted, inSecond, inMinute := 0, map[int]int{}, map[int]int{}
	for i := range requests {
		c.set(noon.Add(time.Duration(i) * every))
		if _, ok := r.ask(hits...); ok {
			admitted++
			inSecond[i/100]++
			inMinute[i/6000]++
		}
	}
	if admitted != 250 || inMinute[0] != 125 || inMinute[1] != 125 {
		t.Errorf("%d requests of an hour are admitted, by minute %v, want 250, 125 in each of the first two", admitted, inMinute)
	}
	for second, n := range inSecond {
		if n > 10 {
			t.Errorf("second %d: %d requests are admitted, want at most 10", second, n)
		}
	}
	c.set(noon.Add(time.Hour))
	r.expectAdmitted(10, hits...)
	r.expectDenied(time.Second, hits...)
}
