package e2e

import (
	"testing"

	"weir/internal/testenv"
)

// stack is everything between a client and an upstream.
type stack struct {
	*envoy
	weir  *weir
	redis *testenv.Redis // nil where counters are in memory
	rules string         // directory of the rules
}

// patientWithRedis are the settings that let Weir, too, wait for Redis on a busy
// machine, whether or not its caller has a deadline.
var patientWithRedis = []string{"REQUEST_TIMEOUT=50s", "REDIS_TIMEOUT=50s"}

// onRedis are the settings of a Weir with its counters in redis.
func onRedis(redis *testenv.Redis) []string {
	return append([]string{"REDIS_URL=" + redis.Addr()}, patientWithRedis...)
}

// start starts Weir with the given rules and environment on a Redis of its own, and
// Envoy before it.
func (g gateway) start(t *testing.T, rules string, env ...string) *stack {
	t.Helper()
	testenv.Envoy(t) // before anything is built and started for nothing
	awayFromMidnight(t)
	s := &stack{rules: writeRules(t, rules)}
	if !g.memory {
		s.redis = testenv.RedisServer(t)
		env = append(onRedis(s.redis), env...)
	}
	s.weir = startWeir(t, s.rules, env...)
	s.envoy = runEnvoy(t, g.bootstrap(t, s.weir.grpc))
	return s
}

// inEachStore runs test on a stack that keeps its counters in memory and on one
// that keeps them in Redis.
func inEachStore(t *testing.T, rules string, test func(t *testing.T, s *stack)) {
	t.Parallel()
	for name, g := range map[string]gateway{"memory": {memory: true}, "redis": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, g.start(t, rules))
		})
	}
}

// asked is a series of equal requests.
type asked struct {
	path     string
	headers  []string // each "name: value"
	limit    string   // what the header x-ratelimit-limit has, each time
	statuses []int
}

// by are the headers of a user.
func by(user string) []string { return []string{"x-user: " + user} }

// times is a status that comes so often.
func times(n, status int, then ...int) (statuses []int) {
	for range n {
		statuses = append(statuses, status)
	}
	return append(statuses, then...)
}

// wantLimits asks Envoy and compares statuses and limits.
func (e *envoy) wantLimits(series ...asked) {
	e.t.Helper()
	for _, s := range series {
		for i, want := range s.statuses {
			a := e.ask(s.path, s.headers...)
			if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != s.limit {
				e.t.Errorf("request %d to %s with %q: status %d with limit %q, want %d with %q", i+1, s.path, s.headers, a.status, got, want, s.limit)
			}
		}
	}
}
