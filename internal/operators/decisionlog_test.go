package operators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
)

// newRecord returns the record of a denial.
func newRecord(t testing.TB, key, value string) LogRecord {
	t.Helper()
	asked := Asked{Domain: "api", Entries: []limiter.Entry{{Key: key, Value: value}}, Key: []byte("w1|api")}
	return LogRecord{
		Time: time.Date(2026, 8, 1, 12, 0, 0, 5e8, time.UTC), Domain: "api", Descriptor: new(asked.Excerpt(logText)), Outcome: "denied",
		Rule: "user", Place: "rules.yaml:3:5", Limit: "minute", Rate: "5 per minute", Remaining: new(int64), RetryAfter: new(1.5),
		TraceID: "00000000000000000000000000000007",
	}
}

func TestRecordAsJSON(t *testing.T) {
	denied := newRecord(t, "user", "alice")
	never := denied
	never.RetryAfter, never.TraceID = nil, ""
	unmatched := LogRecord{Time: denied.Time, Domain: "api", Descriptor: denied.Descriptor, Outcome: "admitted"}
	const begin = `{"time":"2026-08-01T12:00:00.5Z","domain":"api","descriptor":{"entries":[{"key":"user","value":"alice"}]},`
	const rule = `"rule":"user","place":"rules.yaml:3:5","limit":"minute","rate":"5 per minute",`
	for _, tt := range []struct {
		name string
		r    LogRecord
		want string
	}{
		{"denied", denied, begin + rule + `"outcome":"denied","remaining":0,"retry_after":1.5,"trace_id":"00000000000000000000000000000007"}`},
		{"for ever", never, begin + rule + `"outcome":"denied","remaining":0}`},
		{"without a rule", unmatched, begin + `"outcome":"admitted"}`},
		{"left out", LogRecord{Time: denied.Time, LeftOut: &LeftOut{1, 2, 3}}, `{"time":"2026-08-01T12:00:00.5Z","left_out":{"rate":1,"slow":2,"failed":3}}`},
	} {
		if got := string(tt.r.JSON()); got != tt.want+"\n" {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// sink is a Sink of a test.
type sink struct {
	mu    sync.Mutex
	lines []LogRecord
	fail  error
	hold  chan struct{} // writes wait for it, if it is not nil
}

func (s *sink) Write(ctx context.Context, batch []LogRecord) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.lines = append(s.lines, batch...)
	return nil
}

func (s *sink) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (*sink) Close(context.Context) error { return nil }

// written returns how many records were written, and what is said to be left out.
func (s *sink) written() (records int, left LeftOut) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if l.LeftOut == nil {
			records++
			continue
		}
		left.Rate, left.Slow, left.Failed = left.Rate+l.LeftOut.Rate, left.Slow+l.LeftOut.Slow, left.Failed+l.LeftOut.Failed
	}
	return records, left
}

// startLog starts a log in a bubble of synctest, and returns how to stop it.
func startLog(s LogSink, opts LogOptions) (l *DecisionLog, reg *prometheus.Registry, failures *atomic.Int64) {
	reg = prometheus.NewRegistry()
	failures = new(atomic.Int64)
	opts.Sink, opts.Registerer, opts.Failed = s, reg, func(error) { failures.Add(1) }
	return StartDecisionLog(opts), reg, failures
}

// stopLog closes l, and returns how long that took.
func stopLog(t *testing.T, l *DecisionLog, patience time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	err := l.Close(ctx)
	return time.Since(began), err
}

// offer offers n records, and returns how many were admitted.
func offer(t *testing.T, l *DecisionLog, n int) (admitted int) {
	r := newRecord(t, "user", "alice")
	for range n {
		if l.admit(time.Now()) {
			admitted++
			l.add(r)
		}
	}
	return admitted
}

func wantMetrics(t *testing.T, reg *prometheus.Registry, records int, left LeftOut) {
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
`, left.Failed, left.Rate, left.Slow, records)
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
				offer(t, l, 5)
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
			if got, _ := s.written(); got != 10*(second+1) {
				t.Errorf("after %d seconds: got %d records", second+1, got)
			}
		}
		if _, err := stopLog(t, l, time.Minute); err != nil {
			t.Error(err)
		}
		if records, left := s.written(); records != 30 || left != (LeftOut{Rate: 120}) {
			t.Errorf("got %d records, %+v left out", records, left)
		}
		reports := 0
		for _, line := range s.lines {
			if line.LeftOut != nil {
				reports++
			}
		}
		if reports > 4 {
			t.Errorf("got %d reports in three seconds", reports)
		}
		wantMetrics(t, reg, 30, LeftOut{Rate: 120})
	})
}

// TestRateByManyCallers admits no more than the rate, whichever callers ask.
func TestRateByManyCallers(t *testing.T) {
	var s sink
	l, _, _ := startLog(&s, LogOptions{Rate: 100})
	now, admitted := time.Now(), make(chan bool, 6400)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 100 {
				if l.admit(now) {
					admitted <- true
				}
			}
		})
	}
	all.Wait()
	if len(admitted) != 100 {
		t.Errorf("%d were admitted, want 100", len(admitted))
	}
	if _, err := stopLog(t, l, time.Minute); err != nil {
		t.Error(err)
	}
}

// TestSlowSink lets a sink hang: nobody waits for it, and it says what is missing when it
// goes on.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sink{hold: make(chan struct{})}
		l, reg, _ := startLog(&s, LogOptions{Rate: 1e6})
		began := time.Now()
		offer(t, l, 1)
		synctest.Wait() // the sink has it
		offer(t, l, queueSize+500)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("somebody waited for %v", waited)
		}
		wantMetrics(t, reg, 0, LeftOut{Slow: 500})
		close(s.hold)
		time.Sleep(2 * leftOutEvery)
		if records, left := s.written(); records != queueSize+1 || left != (LeftOut{Slow: 500}) {
			t.Errorf("got %d records, %+v left out", records, left)
		}
		if _, err := stopLog(t, l, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// TestSinkFails counts what was lost, and says it as soon as that can be written.
func TestSinkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sink{fail: errors.New("gone")}
		l, reg, failures := startLog(&s, LogOptions{Rate: 1e6})
		offer(t, l, 7)
		time.Sleep(3 * leftOutEvery)
		wantMetrics(t, reg, 0, LeftOut{Failed: 7})
		if failures.Load() == 0 {
			t.Error("nobody was told")
		}
		s.setFail(nil)
		time.Sleep(3 * leftOutEvery)
		if _, left := s.written(); left != (LeftOut{Failed: 7}) {
			t.Errorf("%+v left out", left)
		}
		if _, err := stopLog(t, l, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseLeavesBehind closes a log whose sink hangs.
func TestCloseLeavesBehind(t *testing.T) {
	r, w := io.Pipe() // nobody reads
	l, _, _ := startLog(Lines{W: w}, LogOptions{Rate: 1e6})
	offer(t, l, 10)
	if took, err := stopLog(t, l, 10*time.Millisecond); err == nil || took > 10*time.Second {
		t.Errorf("got %v after %v", err, took)
	}
	r.Close()
	<-l.ended
}

// TestLinger gathers records, and closes without lingering.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		l, _, _ := startLog(&s, LogOptions{Rate: 1e6, Linger: time.Second / 2})
		for range 4 {
			offer(t, l, 1)
			time.Sleep(time.Second / 10)
		}
		if records, _ := s.written(); records != 0 {
			t.Errorf("got %d records too early", records)
		}
		time.Sleep(time.Second / 4)
		if records, _ := s.written(); records != 4 {
			t.Errorf("got %d records, want 4", records)
		}
		offer(t, l, 1000)
		if took, err := stopLog(t, l, time.Minute); err != nil || took > 0 {
			t.Errorf("got %v after %v", err, took)
		}
		if records, _ := s.written(); records != 1004 {
			t.Errorf("got %d records, want 1004", records)
		}
	})
}
