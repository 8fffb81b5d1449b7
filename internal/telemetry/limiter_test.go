package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
)

// must makes a limit of a test, whose Spec is right.
func must(s limiter.Spec) *limiter.Limit {
	l, err := limiter.NewLimit(s)
	if err != nil {
		panic(err)
	}
	return l
}

// newDefault makes a Limiter with the defaults of the server.
func newDefault(store limiter.Store, reg prometheus.Registerer) *Limiter {
	return New(store, Options{
		Registerer:        reg,
		NearLimitRatio:    0.8,
		MaxDetailedSeries: 10_000,
		Logger:            slog.New(slog.DiscardHandler),
	})
}

// fixed is a store whose counters all stand at the same state and time.
type fixed struct {
	state limiter.State
	now   int64
	err   error
}

func (f fixed) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	states := make([]*limiter.State, len(hits))
	for i := range states {
		s := f.state
		states[i] = &s
	}
	return limiter.Decide(hits, states, f.now, out), f.err
}

func TestLimiterWithoutHitsAdmits(t *testing.T) {
	l := newDefault(fixed{err: limiter.ErrUnavailable}, prometheus.NewRegistry())
	if denied, err := l.Decide(context.Background(), nil, nil); denied || err != nil {
		t.Errorf("got denied %v, error %v", denied, err)
	}
}

func TestLimiterReturnsTheStoresError(t *testing.T) {
	l := newDefault(fixed{err: limiter.ErrUnavailable}, prometheus.NewRegistry())
	hits := []limiter.Hit{{Limit: must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 1}), Cost: 1}}
	if _, err := l.Decide(context.Background(), hits, make([]limiter.Decision, 1)); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if n := testutil.ToFloat64(l.storeErrors); n != 1 {
		t.Errorf("weir_store_errors_total is %v, want 1", n)
	}
	if n := testutil.CollectAndCount(l.series); n != 0 {
		t.Errorf("%d series of hits after an error, want none", n)
	}
}
