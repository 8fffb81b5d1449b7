package operators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/testenv"
)

// sink is a Sink of a test.
type sink struct {
	written atomic.Int64
	fails   bool
	hold    chan struct{} // writes wait for it, if it is not nil
}

func (s *sink) Write(ctx context.Context, batch []LogRecord) error {
	if s.hold != nil {
		<-s.hold
	}
	if s.fails {
		return errors.New("gone")
	}
	s.written.Add(int64(len(batch)))
	return nil
}

func (*sink) Close(context.Context) error { return nil }

// startLog starts a log in a bubble of synctest, and returns how to stop it.
func startLog(s LogSink, opts LogOptions) (l *DecisionLog, reg *prometheus.Registry, failures *atomic.Int64) {
	reg = prometheus.NewRegistry()
	failures = new(atomic.Int64)
	opts.Sink, opts.Registerer, opts.Failed = s, reg, func(error) { failures.Add(1) }
	return StartDecisionLog(opts), reg, failures
}

func stopLog(t *testing.T, l *DecisionLog) {
	t.Helper()
	testenv.OK(t, l.Close(t.Context()))
}

// offer offers n records.
func offer(l *DecisionLog, n int) {
	for range n {
		if l.admit(time.Now()) {
			l.add(LogRecord{Domain: "api"})
		}
	}
}

func wantMetrics(t *testing.T, reg *prometheus.Registry, records, rate, slow, failed int) {
	t.Helper()
	want := fmt.Sprintf(`
# HELP weir_decision_log_left_out_total Records missing from the decision log: rate, DECISION_LOG_RATE was exceeded; slow, the log was not read fast enough; failed, it could not be written.
# TYPE weir_decision_log_left_out_total counter
weir_decision_log_left_out_total{reason="failed"} %d
weir_decision_log_left_out_total{reason="rate"} %d
weir_decision_log_left_out_total{reason="slow"} %d
# HELP weir_decision_log_records_total Records written to the decision log.
# TYPE weir_decision_log_records_total counter
weir_decision_log_records_total %d
`, failed, rate, slow, records)
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestRate offers more than may be written, for three seconds.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		l, reg, _ := startLog(&s, LogOptions{Rate: 10})
		for second := range 3 {
			for range 10 {
				offer(l, 5)
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
			if got := s.written.Load(); got != int64(10*(second+1)) {
				t.Errorf("after %d seconds: got %d records", second+1, got)
			}
		}
		stopLog(t, l)
		wantMetrics(t, reg, 30, 120, 0, 0)
	})
}

// TestSlowSink lets a sink hang: nobody waits for it, and what it missed is counted.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sink{hold: make(chan struct{})}
		l, reg, _ := startLog(&s, LogOptions{Rate: 1e6})
		began := time.Now()
		offer(l, 1)
		synctest.Wait() // the sink has it
		offer(l, queueSize+500)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("somebody waited for %v", waited)
		}
		wantMetrics(t, reg, 0, 0, 500, 0)
		close(s.hold)
		stopLog(t, l)
		wantMetrics(t, reg, queueSize+1, 0, 500, 0)
	})
}

// TestSinkFails counts what was lost, and says why.
func TestSinkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reg, failures := startLog(&sink{fails: true}, LogOptions{Rate: 1e6})
		offer(l, 7)
		stopLog(t, l)
		wantMetrics(t, reg, 0, 0, 0, 7)
		if failures.Load() == 0 {
			t.Error("nobody was told")
		}
	})
}

// TestCloseLeavesBehind closes a log whose sink hangs.
func TestCloseLeavesBehind(t *testing.T) {
	r, w := io.Pipe() // nobody reads
	l, _, _ := startLog(Lines{W: w}, LogOptions{Rate: 1e6})
	offer(l, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("got no error")
	}
	r.Close()
	<-l.ended
}

// TestLinger gathers records, and closes without lingering.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		l, _, _ := startLog(&s, LogOptions{Rate: 1e6, Linger: time.Second / 2})
		wantWritten := func(want int64) {
			t.Helper()
			if got := s.written.Load(); got != want {
				t.Errorf("got %d records, want %d", got, want)
			}
		}
		for range 4 {
			offer(l, 1)
			time.Sleep(time.Second / 10)
		}
		wantWritten(0)
		time.Sleep(time.Second / 4)
		wantWritten(4)
		offer(l, 1000)
		began := time.Now()
		stopLog(t, l)
		if took := time.Since(began); took > 0 {
			t.Errorf("it lingered for %v", took)
		}
		wantWritten(1004)
	})
}
