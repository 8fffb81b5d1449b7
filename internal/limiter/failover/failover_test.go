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

func (f *failing) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.CounterStore.Peek(ctx, hits)
}

func (f *failing) Reset(ctx context.Context, hits []limiter.Hit) error {
	return errors.Join(f.err, f.CounterStore.Reset(ctx, hits))
}

// outage shows the counters in memory of a store whose primary store fails.
type outage struct {
	t *testing.T
	*Store
}

func (o outage) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	if _, err := o.Store.Peek(ctx, hits); !errors.Is(err, limiter.ErrUnavailable) {
		o.t.Errorf("Peek: got error %v, want that of the primary store", err)
	}
	return o.local.store().Peek(ctx, hits)
}

func (o outage) Reset(ctx context.Context, hits []limiter.Hit) error {
	if err := o.Store.Reset(ctx, hits); !errors.Is(err, limiter.ErrUnavailable) {
		o.t.Errorf("Reset: got error %v, want that of the primary store", err)
	}
	return nil
}

// errDown is why a store fails.
var errDown = fmt.Errorf("%w: somebody pulled the plug", limiter.ErrUnavailable)

func open(mode limiter.FailureMode, now func() time.Time, err error) (*Store, *failing, *prometheus.Registry) {
	inMemory := func() limiter.CounterStore { return memory.New(memory.Options{Now: now}) }
	primary, reg := &failing{inMemory(), err}, prometheus.NewRegistry()
	return New(Options{Primary: primary, OpenLocal: inMemory, Mode: mode, Registerer: reg}), primary, reg
}

// A store that works is passed on as it is, and so are local counters while it
// does not.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{{"works", nil}, {"fails", errDown}} {
		t.Run(c.name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, now func() time.Time) limiter.Store {
				s, _, _ := open(limiter.FailureLocal, now, c.err)
				if c.err != nil {
					return outage{t, s}
				}
				return s
			})
		})
	}
}

func TestNoCostWhileTheStoreWorks(t *testing.T) {
	s, _, _ := open(limiter.FailureLocal, nil, nil)
	hits := []limiter.Hit{{Limit: storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Year}), Key: []byte("k"), Cost: 1}}
	out := make([]limiter.Decision, 1)
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Decide(t.Context(), hits, out) }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	s, primary, _ := open(limiter.FailureLocal, nil, nil)
	hits := []limiter.Hit{{Limit: storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Year}), Key: []byte("k"), Cost: 1}}
	out := make([]limiter.Decision, 1)
	for name, store := range map[string]limiter.Store{"store": primary, "with failover": s} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = store.Decide(b.Context(), hits, out)
			}
		})
	}
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
# HELP weir_failure_mode_decisions_total Hits that the store could not decide, by the failure mode that did; error left the request undecided.
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
		if used(nil); s.local.current.Load() != nil {
			t.Error("the memory is kept")
		}
	})
}
