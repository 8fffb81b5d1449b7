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
)

// However many values there are, and however many ask at once, there are only
// so many series; the rest is counted under the rule, and told once.
func TestDetailedSeriesAreBounded(t *testing.T) {
	const values, workers = maxDetailed + 50, 8
	var log strings.Builder
	l := New(Options{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	limit := perMinute(limiter.LabelSet{Domain: "api", Key1: "user"})
	var asking sync.WaitGroup
	for range workers {
		asking.Go(func() {
			for i := range values {
				l.ask(0, limiter.Hit{Limit: limit, Cost: 1, Labels: fmt.Appendf(nil, "user_%d\x00", i)})
			}
		})
	}
	asking.Wait()
	all := maps.Collect(l.Sums())
	if len(all) != maxDetailed+1 {
		t.Errorf("%d series, want %d and that of the rule", len(all), maxDetailed)
	}
	var sum uint64
	for _, units := range all {
		sum += units[TotalHits]
	}
	if sum != values*workers {
		t.Errorf("%d hits in all series, want %d", sum, values*workers)
	}
	if got, want := all[limit.Series.Labels()][TotalHits], uint64((values-maxDetailed)*workers); got != want {
		t.Errorf("%d hits under the rule, want %d", got, want)
	}
	if got, want := testutil.ToFloat64(l.overflow), float64((values-maxDetailed)*workers); got != want {
		t.Errorf("overflow is %v, want %v", got, want)
	}
	if got := strings.Count(log.String(), "maximum number of metric series"); got != 1 {
		t.Errorf("told %d times, want once:\n%s", got, log.String())
	}
}
