package telemetry

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// must makes a limit of a test, whose Spec is right.
// onStore counts what a store decides.
type onStore struct {
	*Usage
	store limiter.Store
}

// newDefault makes a Usage with the defaults of the server.
func newDefault(store limiter.Store, reg prometheus.Registerer) onStore {
	return onStore{New(Options{
		Registerer:        reg,
		NearLimitRatio:    0.8,
		MaxDetailedSeries: 10_000,
		Logger:            slog.New(slog.DiscardHandler),
	}), store}
}

// ask has hits decided and counted, and reports whether they are denied.
func (s onStore) ask(hits ...limiter.Hit) bool {
	out := make([]limiter.Decision, len(hits))
	denied, err := s.store.Decide(context.Background(), hits, out)
	if err != nil {
		panic(err) // none of these stores fails
	}
	s.Count(hits, out)
	return denied
}

// fixed is a store whose counters all stand at the same state and time.
type fixed struct {
	state limiter.State
	now   int64
}

func (f fixed) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	states := make([]*limiter.State, len(hits))
	for i := range states {
		s := f.state
		states[i] = &s
	}
	return limiter.Decide(hits, states, nil, f.now, out), nil
}
