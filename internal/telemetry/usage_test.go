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
	"weir/internal/testenv"
)

// The number of series is bounded for any number of values and of concurrent requests. Further
// values are counted under their rule. This is logged once.
func TestDetailedSeriesAreBounded(t *testing.T) {
	const values, workers = maxDetailed + 50, 8
	var log strings.Builder
	l := New(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)), 0)
	limit := perMinute(10, user)
	var asking sync.WaitGroup
	for range workers {
		asking.Go(func() {
			for i := range values {
				l.ask(0, limiter.Hit{Limit: limit, Cost: 1, Labels: fmt.Appendf(nil, "user_%d\x00", i)})
			}
		})
	}
	asking.Wait()
	all, sum := maps.Collect(l.Sums()), uint64(0)
	for _, units := range all {
		sum += units[TotalHits]
	}
	const most, more = maxDetailed + 1, (values - maxDetailed) * workers
	got := fmt.Sprint(len(all), " series, ", sum, " hits, ", all[limit.Series.Labels()][TotalHits], " under the rule, ",
		testutil.ToFloat64(l.overflow), " too many, logged ", strings.Count(log.String(), "maximum number of metric series"))
	testenv.Equal(t, got, fmt.Sprint(most, " series, ", values*workers, " hits, ", more, " under the rule, ", more, " too many, logged ", 1), "counted")
	if l.addDetail(detail{limit.Series.Domain(), "late"}, limit.Series.Rule()) != nil { // other requests took the last series
		t.Error("there are more series than allowed")
	}
}
