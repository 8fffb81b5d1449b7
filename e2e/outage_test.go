package e2e

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// closedAndOpen starts a stack whose Envoy denies what Weir cannot decide, and a second
// Envoy that lets it pass. Each has the status of such a request.
func closedAndOpen(t *testing.T) (closed *stack, undecided map[*envoy]int) {
	t.Helper()
	closed = gateway{}.start(t, userRules(2))
	open := runEnvoy(t, gateway{rateLimit: "failure_mode_deny: false"}.bootstrap(t, closed.weir.grpc))
	return closed, map[*envoy]int{closed.envoy: 500, open: 200}
}

// hold makes Redis take the scripts of Weir and hold them back until release.
func hold(r *testenv.Redis)    { r.Command("CLIENT PAUSE 60000 WRITE") }
func release(r *testenv.Redis) { r.Command("CLIENT UNPAUSE") }

// waitForHeldScript waits until a Redis on hold has a script of Weir.
func waitForHeldScript(t *testing.T, r *testenv.Redis) {
	t.Helper()
	testenv.Until(t, "Redis holds a script back", func() bool { return !strings.Contains(r.Command("INFO clients"), "blocked_clients:0\r") })
}

func TestEnvoyDecidesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s, undecided := closedAndOpen(t)
	s.want("/", "x-user: alice", 200, 200, 429)
	s.redis.Stop()
	for e, status := range undecided {
		e.want("/", "x-user: bob", times(3, status)...) // alice is remembered to be over
	}
	// Another server would not do better: this one stays in service.
	if a, err := fetch("http://" + s.weir.http + "/healthcheck"); err != nil || a.status != 200 {
		t.Errorf("health check without Redis: %d %s, %v; want 200", a.status, a.body, err)
	}
	s.redis.Start()
	// The counters went with the old Redis.
	testenv.Becomes(t, "status", 200, func() int { return s.ask("/", "x-user: alice").status })
	s.want("/", "x-user: alice", 200, 429)
}

func TestWeirWaitsForARedisThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	awayFromMidnight(t)
	redis := testenv.RedisServer(t)
	redis.Stop()
	w := runWeir(t, append(onRedis(redis), "CONFIG_PATH="+writeRules(t, userRules(2))), program(t))
	w.waitForHealth(500, "")
	redis.Start()
	w.waitUntilHealthy()
	w.waitForRemaining(2, "api", "user", "alice")
}

// Requests that wait for Redis when it dies are answered because of that, not
// because somebody's patience ends, and decisions go on when it is back.
func TestRequestsInFlightWhenRedisDies(t *testing.T) {
	t.Parallel()
	s, undecided := closedAndOpen(t)
	s.want("/", "x-user: alice", 200)
	hold(s.redis)
	var requests sync.WaitGroup
	for range 5 {
		for e, status := range undecided {
			requests.Go(func() {
				if a, err := fetch("http://"+e.addr+"/", by("alice")...); err != nil || a.status != status {
					t.Errorf("status %d, %v; want %d", a.status, err, status)
				}
			})
		}
	}
	waitForHeldScript(t, s.redis)
	s.redis.Stop()
	requests.Wait()
	s.weir.waitForMetric(`weir_redis_errors_total{kind="timeout"} 0`)
	s.redis.Start()
	testenv.Until(t, "Weir decides again", func() bool { return s.ask("/", by("probe")...).status != 500 })
	s.want("/", "x-user: alice", 200, 200, 429)
}

// A decision that is under way when the process is told to end is still given, and the
// process ends with exit code 0. Timeout 0 lets Envoy wait for as long as that takes.
func TestTerminationDrains(t *testing.T) {
	t.Parallel()
	s := gateway{rateLimit: "timeout: 0s"}.start(t, userRules(2), "DRAIN_TIMEOUT=50s")
	s.want("/", "x-user: alice", 200)
	hold(s.redis)
	answers := s.askInBackground("/", "alice")
	waitForHeldScript(t, s.redis)
	s.weir.signal(syscall.SIGINT) // without the pause that comes after SIGTERM
	testenv.Eventually(t, func() error {
		if conn, err := net.Dial("tcp", s.weir.grpc); err == nil {
			conn.Close()
			return errors.New("Weir still listens")
		}
		return nil
	})
	release(s.redis)
	if a := <-answers; a.status != 200 {
		t.Errorf("the request in flight got %d, want 200", a.status)
	}
	s.weir.wantExit(0)
}

// A process that is told to end fails its health check and serves on, until the
// pause is over or somebody cuts it short.
func TestPauseBeforeTheDrain(t *testing.T) {
	t.Parallel()
	const ever = 10 * time.Minute // longer than anybody waits
	for _, test := range []struct {
		name    string
		delay   time.Duration
		first   syscall.Signal
		second  syscall.Signal // 0 if there is none
		leaving bool           // whether there is a pause that waits to be seen
	}{
		{"ends by itself", time.Second, syscall.SIGTERM, 0, false},
		{"ends with a second SIGTERM", ever, syscall.SIGTERM, syscall.SIGTERM, true},
		{"ends with SIGINT", ever, syscall.SIGTERM, syscall.SIGINT, true},
		{"is not for SIGINT", ever, syscall.SIGINT, 0, false},
		{"is switched off", 0, syscall.SIGTERM, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := startWeir(t, "config", "DRAIN_DELAY="+test.delay.String())
			begin := time.Now()
			w.signal(test.first)
			if test.leaving {
				w.waitForHealth(500, "draining\n")
				w.remaining("user", "alice") // on a new connection
			}
			if test.second != 0 {
				w.signal(test.second)
			}
			w.wantExit(0)
			if took := time.Since(begin); test.delay != ever && took < test.delay {
				t.Errorf("the pause took %v, want %v", took, test.delay)
			}
		})
	}
}

// Envoy reaches Weir over a unix socket, also after a Weir that was killed and
// left the socket behind.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	setting := "GRPC_UDS=" + filepath.Join(t.TempDir(), "weir.sock")
	s := gateway{memory: true}.start(t, userRules(2), setting)
	if !strings.HasPrefix(s.weir.grpc, "unix:") {
		t.Errorf("gRPC is at %s", s.weir.grpc)
	}
	s.want("/", "x-user: alice", 200, 200, 429)
	s.weir.signal(syscall.SIGKILL)
	s.weir.exitCode()
	startWeir(t, s.rules, setting)
	testenv.Until(t, "Weir decides again", func() bool { return s.ask("/", by("probe")...).status != 500 })
	s.want("/", "x-user: alice", 200, 200, 429) // the counters were in memory
}

// TestBan lets a client of a real Envoy exceed a limit that bans, knock until the ban
// ends, and come back then: with counters in Redis, and in memory.
func TestBan(t *testing.T) {
	const ban = 4 * time.Second
	inEachStore(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 2, deny_for: 4s}}]\n", func(t *testing.T, s *stack) {
		status := func(user string) int { return s.ask("/", by(user)...).status }
		begins := time.Now() // no later than the ban
		first := s.ask("/", by("alice")...)
		for first.status != 429 { // until three come within a second
			begins = time.Now()
			first = s.ask("/", by("alice")...)
		}
		began := time.Now() // no earlier than the ban
		if got := first.header.Get("retry-after"); got != "4" {
			t.Errorf("retry-after is %s, want 4", got)
		}
		if got := status("bob"); got != 200 {
			t.Errorf("another user: status %d", got)
		}
		knocks := 0
		for time.Since(began) < ban-500*time.Millisecond {
			asked := time.Now()
			a := s.ask("/", by("alice")...)
			wait, err := time.ParseDuration(a.header.Get("retry-after") + "s")
			if a.status != 429 || err != nil {
				t.Fatalf("%v after the ban began: status %d, retry-after %q", asked.Sub(began), a.status, a.header.Get("retry-after"))
			}
			// It is in whole seconds, and later by less than one for a client that comes often.
			if time.Now().Add(wait).Before(begins.Add(ban)) || asked.Add(wait).After(began.Add(ban+2*time.Second)) {
				t.Errorf("%v after the ban began: retry-after is %v", asked.Sub(began), wait)
			}
			knocks++
			testenv.Pass(200 * time.Millisecond)
		}
		if knocks < 5 {
			t.Errorf("only %d knocks", knocks)
		}
		testenv.Pass(time.Until(began.Add(ban)))
		if got := status("alice"); got != 200 {
			t.Errorf("after the ban: status %d", got)
		}
		if s.redis == nil {
			return
		}

		for status("alice") != 429 {
		}
		if keys, deleted := s.redis.Command("DBSIZE"), s.redis.Command("DEL w1|api|user=alice|1s"); keys != "1" || deleted != "1" {
			t.Errorf("%s keys, of which %s is deleted; want 1 and 1", keys, deleted)
		}
		testenv.Pass(time.Second + 100*time.Millisecond) // for which used-up limits are remembered
		if got := status("alice"); got != 200 {
			t.Errorf("after the ban was lifted: status %d", got)
		}
	})
}
