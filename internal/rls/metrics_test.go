package rls

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	opts := options(t, rules)
	opts.Registerer = reg
	conn := serve(t, New(opts))
	for range 3 {
		if _, err := ask(t, conn, "domain: 'api' "+d("user", "a")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask(t, conn, "domain: 'api'"); err == nil {
		t.Fatal("a bad request was accepted")
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP ratelimit_service_should_rate_limit_error Requests without a decision: redis_error, the store of whatever kind failed; service_error, the request is bad or there are no rules.
# TYPE ratelimit_service_should_rate_limit_error counter
ratelimit_service_should_rate_limit_error{err_type="redis_error"} 0
ratelimit_service_should_rate_limit_error{err_type="service_error"} 1
# HELP ratelimit_service_total_requests gRPC requests.
# TYPE ratelimit_service_total_requests counter
ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 4
`), "ratelimit_service_should_rate_limit_error", "ratelimit_service_total_requests"); err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "ratelimit_service_response_time_seconds" {
			if n := f.GetMetric()[0].GetHistogram().GetSampleCount(); n != 4 {
				t.Errorf("%d response times, want 4", n)
			}
			return
		}
	}
	t.Error("no response times")
}

func TestStoreErrorsAreCounted(t *testing.T) {
	opts := options(t, rules)
	opts.Limiter = limiter.New(failing{}, prometheus.NewRegistry())
	s := New(opts)
	c := s.newCall()
	c.wire = hotRequest(1)
	if err := s.decide(context.Background(), c); err == nil {
		t.Fatal("a failed store decided")
	}
	if got := testutil.ToFloat64(s.metrics.storeErrors); got != 1 {
		t.Errorf("%v store errors, want 1", got)
	}
}

func TestMetricNames(t *testing.T) {
	reg := prometheus.NewRegistry()
	newMetrics(reg)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// The names are those of the reference, whose counters lack the suffix.
		if p.Text != `counter metrics should have "_total" suffix` {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
