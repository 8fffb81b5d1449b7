package storetest

import (
	"context"
	"sync"
	"time"

	"weir/internal/limiter"
)

// Model is the simplest store there is: limiter.Decide on a map that forgets
// nothing. Every other store must decide as it does.
type Model struct {
	now func() time.Time

	mu       sync.Mutex
	counters map[string]*limiter.State
}

// NewModel returns a model with no counters that takes the time from now.
func NewModel(now func() time.Time) *Model {
	return &Model{now: now, counters: make(map[string]*limiter.State)}
}

// Decide decides hits as limiter.Decide does. It never fails.
func (m *Model) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := make([]*limiter.State, len(hits))
	for i := range hits {
		key := string(hits[i].Key)
		if m.counters[key] == nil {
			m.counters[key] = new(limiter.State)
		}
		states[i] = m.counters[key]
	}
	return limiter.Decide(hits, states, m.now().UnixMicro(), out), nil
}
