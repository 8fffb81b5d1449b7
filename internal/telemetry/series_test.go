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
	dto "github.com/prometheus/client_model/go"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// Prometheus is told the sums over what its labels do not have.
func TestSeriesOfPrometheus(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := newDefault(shared{}, reg)
	for _, more := range []string{"c", "d"} {
		l.ask(limiter.Hit{Limit: perMinute(limiter.LabelSet{Domain: "api", Key1: "a", Key2: "b", More: more}), Cost: 2})
	}
	var want strings.Builder
	for name, value := range map[string]int{"near_limit": 0, "over_limit": 0, "over_limit_with_local_cache": 0, "shadow_mode": 0, "total_hits": 4, "within_limit": 4} {
		name = "ratelimit_service_rate_limit_" + name
		fmt.Fprintf(&want, "# HELP %s %[1]s\n# TYPE %[1]s counter\n%[1]s{domain=\"api\",key1=\"a\",key2=\"b\"} %d\n", name, value)
	}
	want.WriteString("# HELP weir_detailed_series weir_detailed_series\n# TYPE weir_detailed_series gauge\nweir_detailed_series 0\n")
	for _, name := range []string{"weir_detailed_series_overflow_total", "weir_store_errors_total"} {
		fmt.Fprintf(&want, "# HELP %s %[1]s\n# TYPE %[1]s counter\n%[1]s 0\n", name)
	}
	if err := testutil.GatherAndCompare(helpless{reg}, strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
}

// helpless has the metrics of another Gatherer with their names as what they say for people.
type helpless struct{ prometheus.Gatherer }

func (h helpless) Gather() ([]*dto.MetricFamily, error) {
	families, err := h.Gatherer.Gather()
	for _, f := range families {
		f.Help = f.Name
	}
	return families, err
}

// However many values there are, and however many ask at once, there are only
// so many series; the rest is counted under the rule, and told once.
func TestDetailedSeriesAreBounded(t *testing.T) {
	const bound, values, workers = 10, 50, 8
	var log strings.Builder
	l := onStore{New(Options{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(&log, nil))}), shared{}}
	l.maxDetailed = bound
	limit := perMinute(limiter.LabelSet{Domain: "api", Key1: "user"})
	var asking sync.WaitGroup
	for range workers {
		asking.Go(func() {
			for i := range values {
				l.ask(limiter.Hit{Limit: limit, Cost: 1, Labels: fmt.Appendf(nil, "user_%d\x00", i)})
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
	if got, want := testutil.ToFloat64(l.overflow), float64((values-bound)*workers); got != want {
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
	limit := perMinute(limiter.LabelSet{Domain: "api", Key1: "user", Rule: "user", Limit: "minute"})
	for _, labels := range []string{"user_alice\x00", "user_bob\x00"} {
		l.ask(limiter.Hit{Limit: limit, Cost: 4, Labels: []byte(labels)})
		l.ask(limiter.Hit{Limit: limit, Cost: 12, Labels: []byte(labels)})
	}
	if err := testutil.GatherAndCompare(helpless{reg}, strings.NewReader(`
# HELP ratelimit_service_rate_limit_total_hits ratelimit_service_rate_limit_total_hits
# TYPE ratelimit_service_rate_limit_total_hits counter
ratelimit_service_rate_limit_total_hits{domain="api",key1="user_alice",key2=""} 16
ratelimit_service_rate_limit_total_hits{domain="api",key1="user_bob",key2=""} 16
# HELP weir_limit_hits_total weir_limit_hits_total
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
	limit := perMinute(limiter.LabelSet{Domain: "api", Key1: "user", Rule: "user", Limit: "minute"})
	l.ask(limiter.Hit{Limit: limit, Cost: 1})
	problems := testenv.Must(testutil.GatherAndLint(reg))(t)
	for _, p := range problems {
		// The names are those of the reference, whose counters lack the suffix.
		if p.Text != `counter metrics should have "_total" suffix` || !strings.HasPrefix(p.Metric, "ratelimit_service_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
