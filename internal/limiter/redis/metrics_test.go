package redis

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := open(t, Options{Main: at(miniredis.RunT(t).Addr()), Registerer: reg})
	for range 2 {
		mustAsk(t, s, "k", perYear)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, error %v", problems, err)
	}
	const want = `
# HELP weir_redis_calls_total Calls to Redis, each for one batch of requests.
# TYPE weir_redis_calls_total counter
weir_redis_calls_total 2
# HELP weir_redis_errors_total Failed calls to Redis, requests rejected because too many are waiting, and requests that Redis answered too late, by kind.
# TYPE weir_redis_errors_total counter
weir_redis_errors_total{kind="auth"} 0
weir_redis_errors_total{kind="cluster"} 0
weir_redis_errors_total{kind="connection"} 0
weir_redis_errors_total{kind="loading"} 0
weir_redis_errors_total{kind="noscript"} 1
weir_redis_errors_total{kind="oom"} 0
weir_redis_errors_total{kind="other"} 0
weir_redis_errors_total{kind="queue_full"} 0
weir_redis_errors_total{kind="readonly"} 0
weir_redis_errors_total{kind="timeout"} 0
`
	names := []string{"weir_redis_calls_total", "weir_redis_errors_total"}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
