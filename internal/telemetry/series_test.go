package telemetry

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// Prometheus is told the sums over what its labels do not hold.
func TestSeriesOfPrometheus(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := newDefault(shared{}, reg)
	for _, more := range []string{"c", "d"} {
		limit := storetest.Must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Series: limiter.LabelSet{Domain: "api", Key1: "a", Key2: "b", More: more}.Series()})
		l.ask(limiter.Hit{Limit: limit, Cost: 2})
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP ratelimit_service_rate_limit_near_limit Units above NEAR_LIMIT_RATIO of the limit but not over it.
# TYPE ratelimit_service_rate_limit_near_limit counter
ratelimit_service_rate_limit_near_limit{domain="api",key1="a",key2="b"} 0
# HELP ratelimit_service_rate_limit_over_limit Units over the limit.
# TYPE ratelimit_service_rate_limit_over_limit counter
ratelimit_service_rate_limit_over_limit{domain="api",key1="a",key2="b"} 0
# HELP ratelimit_service_rate_limit_over_limit_with_local_cache Units over the limit, denied without asking the store.
# TYPE ratelimit_service_rate_limit_over_limit_with_local_cache counter
ratelimit_service_rate_limit_over_limit_with_local_cache{domain="api",key1="a",key2="b"} 0
# HELP ratelimit_service_rate_limit_shadow_mode Units over the limit that were admitted because of shadow mode.
# TYPE ratelimit_service_rate_limit_shadow_mode counter
ratelimit_service_rate_limit_shadow_mode{domain="api",key1="a",key2="b"} 0
# HELP ratelimit_service_rate_limit_total_hits Requested units.
# TYPE ratelimit_service_rate_limit_total_hits counter
ratelimit_service_rate_limit_total_hits{domain="api",key1="a",key2="b"} 4
# HELP ratelimit_service_rate_limit_within_limit Admitted units.
# TYPE ratelimit_service_rate_limit_within_limit counter
ratelimit_service_rate_limit_within_limit{domain="api",key1="a",key2="b"} 4
# HELP weir_detailed_series Series created from request values by detailed_metric and value_to_metric.
# TYPE weir_detailed_series gauge
weir_detailed_series 0
# HELP weir_detailed_series_overflow_total Hits that got no series from detailed_metric or value_to_metric because there are 10,000 already.
# TYPE weir_detailed_series_overflow_total counter
weir_detailed_series_overflow_total 0
# HELP weir_store_errors_total Requests that neither the store nor a failure mode decided.
# TYPE weir_store_errors_total counter
weir_store_errors_total 0
`)); err != nil {
		t.Error(err)
	}
}

// However many values there are, and however many ask at once, there are only
// so many series; the rest is counted under the rule, and told once.
func TestDetailedSeriesAreBounded(t *testing.T) {
	const bound, values, workers = 10, 50, 8
	var log strings.Builder
	l := onStore{New(Options{
		Registerer: prometheus.NewRegistry(), NearLimitRatio: 0.8,
		MaxDetailedSeries: bound, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}), shared{}}
	limit := storetest.Must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Series: limiter.LabelSet{Domain: "api", Key1: "user"}.Series()})
	var asking sync.WaitGroup
	for range workers {
		asking.Go(func() {
			for i := range values {
				hit := limiter.Hit{Limit: limit, Cost: 1, Labels: fmt.Appendf(nil, "user_%d\x00", i)}
				l.ask(hit)
			}
		})
	}
	asking.Wait()
	all := maps.Collect(l.Sums())
	if len(all) != bound+1 {
		t.Errorf("%d series, want %d and that of the rule", len(all), bound)
	}
	var sum uint64
	for _, units := range all {
		sum += units[TotalHits]
	}
	if sum != values*workers {
		t.Errorf("%d hits in all series, want %d", sum, values*workers)
	}
	if got, want := all[limit.Series.Labels()][TotalHits], uint64((values-bound)*workers); got != want {
		t.Errorf("%d hits under the rule, want %d", got, want)
	}
	if got, want := testutil.ToFloat64(l.series.overflow), float64((values-bound)*workers); got != want {
		t.Errorf("overflow is %v, want %v", got, want)
	}
	if got := strings.Count(log.String(), "maximum number of metric series"); got != 1 {
		t.Errorf("told %d times, want once:\n%s", got, log.String())
	}
}

// Whatever values a hit is counted under, its limit says what became of it.
func TestOutcomesOfHitsWithValues(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := newDefault(shared{}, reg)
	limit := storetest.Must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Series: limiter.LabelSet{Domain: "api", Key1: "user", Rule: "user", Limit: "minute"}.Series()})
	for _, labels := range []string{"user_alice\x00", "user_bob\x00"} {
		hit(t, l, limiter.Hit{Limit: limit, Cost: 4, Labels: []byte(labels)})
		hit(t, l, limiter.Hit{Limit: limit, Cost: 12, Labels: []byte(labels)})
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP ratelimit_service_rate_limit_total_hits Requested units.
# TYPE ratelimit_service_rate_limit_total_hits counter
ratelimit_service_rate_limit_total_hits{domain="api",key1="user_alice",key2=""} 16
ratelimit_service_rate_limit_total_hits{domain="api",key1="user_bob",key2=""} 16
# HELP weir_limit_hits_total Units requested from a limit: admitted; over, they exceeded it; withheld, they fit it but another limit denied the request.
# TYPE weir_limit_hits_total counter
weir_limit_hits_total{domain="api",limit="minute",outcome="admitted",rule="user"} 8
weir_limit_hits_total{domain="api",limit="minute",outcome="over",rule="user"} 24
weir_limit_hits_total{domain="api",limit="minute",outcome="withheld",rule="user"} 0
`), "ratelimit_service_rate_limit_total_hits", "weir_limit_hits_total"); err != nil {
		t.Error(err)
	}
}

func TestMetricNames(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := newDefault(shared{}, reg)
	limit := storetest.Must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Series: limiter.LabelSet{Domain: "api", Key1: "user", Rule: "user", Limit: "minute"}.Series()})
	l.ask(limiter.Hit{Limit: limit, Cost: 1})
	problems := testenv.Must(testutil.GatherAndLint(reg))(t)
	for _, p := range problems {
		// The names are those of the reference, whose counters lack the suffix.
		if p.Text != `counter metrics should have "_total" suffix` || !strings.HasPrefix(p.Metric, "ratelimit_service_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
