package limiter

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// fixed is a store whose counters all stand at the same state and time.
type fixed struct {
	state State
	now   int64
	err   error
}

func (f fixed) Decide(_ context.Context, hits []Hit, out []Decision) (bool, error) {
	states := make([]*State, len(hits))
	for i := range states {
		s := f.state
		states[i] = &s
	}
	return Decide(hits, states, f.now, out), f.err
}

func TestLimiterWithoutHitsAdmits(t *testing.T) {
	l := New(fixed{err: ErrUnavailable}, prometheus.NewRegistry())
	if denied, err := l.Decide(context.Background(), nil, nil); denied || err != nil {
		t.Errorf("got denied %v, error %v", denied, err)
	}
}

func TestLimiterReturnsTheStoresError(t *testing.T) {
	l := New(fixed{err: ErrUnavailable}, prometheus.NewRegistry())
	hits := []Hit{{Limit: must(Spec{Unit: Minute, RequestsPerUnit: 1}), Cost: 1}}
	if _, err := l.Decide(context.Background(), hits, make([]Decision, 1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if n := testutil.ToFloat64(l.metrics.storeErrors); n != 1 {
		t.Errorf("weir_store_errors_total is %v, want 1", n)
	}
	if n := testutil.CollectAndCount(l.metrics.series); n != 0 {
		t.Errorf("%d series of hits after an error, want none", n)
	}
}
