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
)

// failing is a store in memory that answers nothing while err is set.
type failing struct {
	limiter.CounterStore
	err error
}

func (f *failing) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	if f.err != nil {
		return false, f.err
	}
	return f.CounterStore.Decide(ctx, hits, out)
}

// guarded is a store whose failures are decided by failure modes, as plan.Decider does it.
type guarded struct {
	primary *failing
	*Failover
}

func (g guarded) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	denied, err := g.primary.Decide(ctx, hits, out)
	if err != nil {
		return g.Failover.Decide(ctx, hits, out, err)
	}
	g.StoreDecided()
	return denied, nil
}

func (g guarded) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	return g.localStore().Peek(ctx, hits)
}

// errDown is why a store fails.
var errDown = fmt.Errorf("%w: somebody pulled the plug", limiter.ErrUnavailable)

func open(mode limiter.FailureMode, now func() time.Time, err error) (guarded, *failing, *prometheus.Registry) {
	inMemory := func() limiter.CounterStore { return memory.New(memory.Options{Now: now}) }
	primary, reg := &failing{inMemory(), err}, prometheus.NewRegistry()
	return guarded{primary, New(mode, inMemory, reg)}, primary, reg
}

// Local counters are those of any store.
func TestLocalCounters(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, now func() time.Time) limiter.Store {
		s, _, _ := open(limiter.FailureLocal, now, errDown)
		return s
	})
}

// That a caller went away is no failure of the store.
func TestErrorsThatAreNotOurs(t *testing.T) {
	gone, leave := context.WithCancel(context.Background())
	leave()
	bug := errors.New("somebody else's bug")
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
	}{
		{"the caller went away", gone, fmt.Errorf("%w: %w", limiter.ErrUnavailable, context.Canceled)},
		{"another error", context.Background(), bug},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, reg := open(limiter.FailureAllow, nil, c.err)
			hits := []limiter.Hit{{Limit: storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Year}), Key: []byte("k"), Cost: 1}}
			if _, err := s.Decide(c.ctx, hits, make([]limiter.Decision, 1)); err != c.err {
				t.Errorf("got error %v, want %v", err, c.err)
			}
			wantMetrics(t, reg, 0, 0, 0, 0)
		})
	}
}

// wantMetrics compares how many hits each mode has decided.
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
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, error %v", problems, err)
	}
}

// What was counted in memory is forgotten when the store has worked again for a
// while, and not with the first request that another part of it decides.
func TestLocalCountersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, primary, _ := open(limiter.FailureLocal, nil, nil)
		limit := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Year})
		used := func(err error) int64 {
			t.Helper()
			primary.err = err
			var out [1]limiter.Decision
			if _, err := s.Decide(t.Context(), []limiter.Hit{{Limit: limit, Key: []byte("k"), Cost: 1}}, out[:]); err != nil {
				t.Fatal(err)
			}
			return out[0].Used
		}
		for i, step := range []struct {
			after time.Duration // on synctest's clock
			err   error
			want  int64
		}{
			{0, nil, 1}, // in the store
			{0, errDown, 1},
			{time.Hour, errDown, 2}, // nothing has shown that it is back
			{calm - 1, nil, 2},
			{0, errDown, 3},
			{calm, nil, 3},
			{0, errDown, 1},
		} {
			time.Sleep(step.after)
			if got := used(step.err); got != step.want {
				t.Errorf("step %d: %d used, want %d", i, got, step.want)
			}
		}
		used(nil)
		time.Sleep(calm)
		if used(nil); s.local.Load() != nil {
			t.Error("the memory is kept")
		}
	})
}
