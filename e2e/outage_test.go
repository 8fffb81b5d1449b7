package e2e

import (
	"fmt"
	"sync"
	"testing"

	"weir/internal/testenv"
)

func TestEnvoyDecidesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
`
	closed := startStack(t, testenv.RedisServer(t), rules, nil)
	open := startEnvoy(t, closed.weir.grpc, startUpstream(t), map[string]any{"timeout": patient["timeout"], "failure_mode_deny": false})
	closed.want("/", "x-user: alice", 200, 200, 429)
	open.want("/", "x-user: alice", 429)

	closed.redis.Stop()
	for name, c := range map[string]struct {
		envoy  *envoy
		status int
	}{"failure_mode_deny": {closed.envoy, 500}, "failure mode allow": {open, 200}} {
		for range 3 {
			if got := c.envoy.ask("/", "x-user: bob").status; got != c.status { // alice is remembered to be over
				t.Errorf("without Redis, %s: status %d, want %d", name, got, c.status)
			}
		}
	}
	// Another instance would not do better: the process stays in service.
	if a, err := fetch("http://" + closed.weir.http + "/healthcheck"); err != nil || a.status != 200 {
		t.Errorf("health check without Redis: %d %s, %v; want 200", a.status, a.body, err)
	}

	closed.redis.Start()
	// The counters went with the old Redis.
	testenv.Eventually(t, func() error {
		if a := closed.ask("/", "x-user: alice"); a.status != 200 {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
	closed.want("/", "x-user: alice", 200, 429)
	open.want("/", "x-user: alice", 429)
}

func TestWeirWaitsForARedisThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	awayFromMidnight(t)
	const rules = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]\n"
	redis := testenv.RedisServer(t)
	redis.Stop()
	w := runWeir(t, append(onRedis(redis), "CONFIG_PATH="+writeRules(t, rules)), program(t))
	testenv.Eventually(t, func() error {
		if err := w.readAddresses(); err != nil {
			return err
		}
		a, err := fetch("http://" + w.http + "/healthcheck")
		if err == nil && a.status != 500 {
			t.Fatalf("health check without Redis: %d %s, want 500", a.status, a.body)
		}
		return err
	})
	redis.Start()
	w.waitUntilHealthy()
	if got := w.remaining("user", "alice"); got != 2 {
		t.Errorf("the user has %d requests left, want 2", got)
	}
}

// Requests that wait for Redis when it dies are answered because of that, not
// because somebody's patience ends, and decisions go on when it is back.
func TestRequestsInFlightWhenRedisDies(t *testing.T) {
	t.Parallel()
	const rules = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]\n"
	closed := startStack(t, testenv.RedisServer(t), rules, nil)
	open := startEnvoy(t, closed.weir.grpc, startUpstream(t), map[string]any{"timeout": patient["timeout"], "failure_mode_deny": false})
	closed.want("/", "x-user: alice", 200)

	redisCommand(t, closed.redis, "CLIENT PAUSE 60000 WRITE")
	var requests sync.WaitGroup
	for range 5 {
		for name, c := range map[string]struct {
			envoy  *envoy
			status int
		}{"failure_mode_deny": {closed.envoy, 500}, "failure mode allow": {open, 200}} {
			requests.Go(func() {
				a, err := fetch("http://"+c.envoy.addr+"/", "x-user: alice")
				if err != nil || a.status != c.status {
					t.Errorf("%s: status %d, %v; want %d", name, a.status, err, c.status)
				}
			})
		}
	}
	waitForHeldScript(t, closed.redis)
	closed.redis.Stop()
	requests.Wait()
	closed.weir.wantMetric(`weir_redis_errors_total{kind="timeout"} 0`)

	closed.redis.Start()
	testenv.Eventually(t, func() error {
		if a := closed.ask("/", "x-user: probe"); a.status == 500 {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
	closed.want("/", "x-user: alice", 200, 200, 429)
}
