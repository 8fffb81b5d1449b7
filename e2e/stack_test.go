package e2e

import (
	"maps"
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

// patient is how the tests set the filter unless they are about its fields: no
// decision is too late on a busy machine, and none that fails goes unnoticed.
var patient = map[string]any{"timeout": "60s", "failure_mode_deny": true}

// patientWithRedis are the settings that let Weir, too, wait for Redis on a busy
// machine, whether or not its caller has a deadline.
var patientWithRedis = []string{"REQUEST_TIMEOUT=50s", "REDIS_TIMEOUT=50s"}

// onRedis are the settings of a Weir with its counters in redis.
func onRedis(redis *testenv.Redis) []string {
	return append([]string{"REDIS_URL=" + redis.Addr()}, patientWithRedis...)
}

// inEachStore runs test on a stack that keeps its counters in memory and on one
// that keeps them in Redis.
func inEachStore(t *testing.T, rules string, test func(t *testing.T, s *stack)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, startStack(t, nil, rules, nil))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, startStack(t, testenv.RedisServer(t), rules, nil))
	})
}

// startStack starts a stack with the given rules, on redis unless that is nil.
// filter changes fields of Envoy's rate-limit filter.
func startStack(t *testing.T, redis *testenv.Redis, rules string, filter map[string]any) *stack {
	t.Helper()
	testenv.Envoy(t) // before anything is built and started for nothing
	awayFromMidnight(t)
	var env []string
	if redis != nil {
		env = onRedis(redis)
	}
	s := &stack{redis: redis, rules: writeRules(t, rules)}
	s.weir = startWeir(t, s.rules, env...)
	fields := maps.Clone(patient)
	maps.Copy(fields, filter)
	s.envoy = startEnvoy(t, s.weir.grpc, startUpstream(t), fields)
	return s
}
