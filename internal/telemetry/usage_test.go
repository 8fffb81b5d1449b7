package telemetry

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
)

// perMinute is a limit of 10 a minute with these labels.
func perMinute(labels limiter.LabelSet) *limiter.Limit {
	return storetest.Must(limiter.Spec{Unit: limiter.Minute, RequestsPerUnit: 10, Series: labels.Series()})
}

// onStore counts what a store decides.
type onStore struct {
	*Usage
	store limiter.Store
}

// newDefault makes a Usage with the defaults of the server.
func newDefault(store limiter.Store, reg prometheus.Registerer) onStore {
	return onStore{New(Options{Registerer: reg, NearLimitRatio: 0.8, Logger: slog.New(slog.DiscardHandler)}), store}
}

// ask has hits decided and counted.
func (s onStore) ask(hits ...limiter.Hit) {
	out := make([]limiter.Decision, len(hits))
	if _, err := s.store.Decide(context.Background(), hits, out); err != nil {
		panic(err) // none of these stores fails
	}
	s.Count(hits, out)
}

// shared is a store with one counter for all hits.
type shared struct{}

func (shared) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	states, counter := make([]*limiter.State, len(hits)), new(limiter.State)
	for i := range states {
		states[i] = counter
	}
	return limiter.Decide(hits, states, nil, 0, out), nil
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

// remembering is a store that knows of every hit that it is over.
type remembering struct{}

func (remembering) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	for i := range hits {
		out[i] = limiter.Decision{Over: true, Remembered: true, Used: int64(hits[i].Limit.Size())}
	}
	return true, nil
}
