package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// errDown is the error of a store that is down.
var errDown = fmt.Errorf("%w: somebody pulled the plug", limiter.ErrUnavailable)

// down is a store that is always down, so that failure modes decide.
type down struct{ *Failover }

func (d down) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	return d.Failover.Decide(ctx, hits, out, errDown)
}

func (d down) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	return d.localStore().Peek(ctx, hits)
}

func open(mode limiter.FailureMode, now func() time.Time) (down, *prometheus.Registry) {
	inMemory := func() limiter.CounterStore { return memory.New(memory.Options{Now: now}) }
	reg := prometheus.NewRegistry()
	return down{New(mode, inMemory, reg)}, reg
}

// Local counters pass the tests of any store.
func TestLocalCounters(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, now func() time.Time) limiter.CounterStore {
		s, _ := open(limiter.FailureLocal, now)
		return s
	})
}

// A caller that leaves is not a failure of the store, nor is an error that does not wrap
// ErrUnavailable.
func TestErrorsThatAreNotOurs(t *testing.T) {
	gone, leave := context.WithCancel(context.Background())
	leave()
	for name, c := range map[string]struct {
		ctx context.Context
		err error
	}{
		"the caller went away": {gone, fmt.Errorf("%w: %w", limiter.ErrUnavailable, context.Canceled)},
		"another error":        {context.Background(), errors.New("somebody else's bug")},
	} {
		s, reg := open(limiter.FailureAllow, nil)
		if _, err := s.Failover.Decide(c.ctx, []limiter.Hit{hit(byDefault)}, make([]limiter.Decision, 1), c.err); err != c.err {
			t.Errorf("%s: got error %v, want %v", name, err, c.err)
		}
		wantMetrics(t, reg, 0, 0, 0, 0)
	}
}

// wantMetrics compares the numbers of hits decided by each mode.
func wantMetrics(t *testing.T, reg *prometheus.Registry, errors, allow, deny, local int) {
	t.Helper()
	want := fmt.Sprintf(`
# HELP weir_failure_mode_decisions_total Hits that the store could not decide, by the failure mode that decided instead. error leaves the request undecided.
# TYPE weir_failure_mode_decisions_total counter
weir_failure_mode_decisions_total{mode="allow"} %d
weir_failure_mode_decisions_total{mode="deny"} %d
weir_failure_mode_decisions_total{mode="error"} %d
weir_failure_mode_decisions_total{mode="local"} %d
`, allow, deny, errors, local)
	testenv.OK(t, testutil.GatherAndCompare(reg, strings.NewReader(want)))
}

// Local counters are dropped when the store has worked again for a while, not when another part
// of it decides the first request.
func TestLocalCountersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(limiter.FailureLocal, nil)
		limit := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Year})
		for i, step := range []struct {
			after time.Duration // on synctest's clock
			want  int64         // used, 0 if the store decides
		}{
			{0, 0}, {0, 1}, {time.Hour, 2}, // the store has not decided yet
			{calm - 1, 0}, {0, 3}, {calm, 0}, {0, 1}, {0, 0}, {calm, 0},
		} {
			time.Sleep(step.after)
			if step.want == 0 {
				s.StoreDecided()
				continue
			}
			var out [1]limiter.Decision
			if _, err := s.Decide(t.Context(), []limiter.Hit{{Limit: limit, Key: []byte("k"), Cost: 1}}, out[:]); err != nil || out[0].Used != step.want {
				t.Errorf("step %d: %d used, want %d (error: %v)", i, out[0].Used, step.want, err)
			}
		}
		if s.local.Load() != nil {
			t.Error("the memory is kept")
		}
	})
}
