package operators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/testenv"
)

// offer adds n records to l unless its rate is exceeded.
func offer(l *DecisionLog, n int) {
	for range n {
		if l.admit(time.Now()) {
			l.add(LogRecord{Domain: "api"})
		}
	}
}

// TestRecordsAreDropped offers 1000 records in each of two seconds. No caller waits for the sink, and
// dropped records are counted.
func TestRecordsAreDropped(t *testing.T) {
	for name, tt := range map[string]struct {
		rate             int
		slow             bool // the sink hangs until all records are offered
		fails            error
		records          int
		tooFast, tooSlow int
		failed           int
	}{
		"rate":  {rate: 10, records: 20, tooFast: 1980},
		"slow":  {rate: 1e6, slow: true, records: 1 + queueSize, tooSlow: 1999 - queueSize},
		"fails": {rate: 10, fails: errors.New("gone"), tooFast: 1980, failed: 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free, reg, complaints := make(chan struct{}), prometheus.NewRegistry(), 0
				if !tt.slow {
					close(free)
				}
				sink := func(context.Context, []LogRecord) error { <-free; return tt.fails }
				l := StartDecisionLog(LogOptions{Rate: tt.rate, Sink: sink, Registerer: reg, Failed: func(error) { complaints++ }})
				began := time.Now()
				offer(l, 1)
				synctest.Wait() // the sink has the first record
				offer(l, 999)
				time.Sleep(time.Second)
				offer(l, 1000)
				testenv.Equal(t, time.Since(began), time.Second, "time that passed, of which somebody waits for all beyond a second")
				if tt.slow {
					close(free)
				}
				testenv.OK(t, l.Close(t.Context()))
				testenv.Equal(t, complaints > 0, tt.fails != nil, "errors of the sink were handed on")
				want := fmt.Sprintf(`
# HELP weir_decision_log_dropped_total Records missing from the decision log: rate, DECISION_LOG_RATE was exceeded; slow, the log was not read fast enough; failed, it could not be written.
# TYPE weir_decision_log_dropped_total counter
weir_decision_log_dropped_total{reason="failed"} %d
weir_decision_log_dropped_total{reason="rate"} %d
weir_decision_log_dropped_total{reason="slow"} %d
# HELP weir_decision_log_records_total Records written to the decision log.
# TYPE weir_decision_log_records_total counter
weir_decision_log_records_total %d
`, tt.failed, tt.tooFast, tt.tooSlow, tt.records)
				testenv.OK(t, testutil.GatherAndCompare(reg, strings.NewReader(want)))
			})
		})
	}
}

// TestCloseLeavesBehind checks that Close does not wait for a sink that hangs.
func TestCloseLeavesBehind(t *testing.T) {
	r, w := io.Pipe() // without a reader, writes hang
	l := StartDecisionLog(LogOptions{Rate: 1e6, Sink: NewLines(w), Registerer: prometheus.NewRegistry(), Failed: func(error) {}})
	offer(l, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("got no error")
	}
	r.Close()
	<-l.ended
}
