package storetest

import (
	"context"
	"sync"
	"time"

	"weir/internal/limiter"
)

// Model is the simplest store: limiter.Decide on a map that forgets nothing. Every other store
// must make the same decisions.
type Model struct {
	now func() time.Time

	mu sync.Mutex
	// Counters has counters and records of reservations, by key. Tests may read it between calls.
	Counters map[string]*limiter.State
	uses     map[string]limiter.Uses // by key
}

// NewModel returns a model without counters. now is its clock.
func NewModel(now func() time.Time) *Model {
	return &Model{now: now, Counters: make(map[string]*limiter.State), uses: make(map[string]limiter.Uses)}
}

// Decide implements limiter.CounterStore. It fails only if the caller has left.
func (m *Model) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := limiter.Left(ctx, hits); err != nil {
		return false, err
	}
	return limiter.Decide(hits, statesOf(hits, m.Counters), m.keptOf(hits, m.Counters), m.now().UnixMicro(), out), nil
}

// Peek implements limiter.CounterStore. It never fails.
func (m *Model) Peek(_ context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	states, kept := statesOf(hits, m.Counters), m.keptOf(hits, m.Counters)
	counters := make([]limiter.Counter, len(hits))
	for i := range hits {
		state := *states[i]
		if uses := kept[i].Uses; uses != nil {
			state = hits[i].Limit.State(state, uses, 1, now)
		}
		counters[i] = hits[i].Limit.Counter(state, now)
	}
	return counters, nil
}

// Reset implements limiter.CounterStore. It never fails.
func (m *Model) Reset(_ context.Context, hits []limiter.Hit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range hits {
		delete(m.Counters, string(hits[i].Key))
		delete(m.uses, string(hits[i].Key))
	}
	return nil
}

// keptOf returns, for each hit, the uses of the counter and the record of the reservation, if any.
// all has the records, by key.
func (m *Model) keptOf(hits []limiter.Hit, all map[string]*limiter.State) []limiter.Kept {
	kept := make([]limiter.Kept, len(hits))
	for i := range hits {
		key := string(hits[i].Key)
		if hits[i].Reservation != nil {
			kept[i].Record = stateOf(string(hits[i].Reservation), all)
		}
		if !hits[i].HasUses() {
			continue
		}
		if m.uses[key] == nil {
			m.uses[key] = hits[i].NewUses()
		}
		kept[i].Uses = m.uses[key]
	}
	return kept
}

// expiresSoon reports whether one of the counters of hits would expire within lifetime if hits were
// decided now. It changes neither counters nor records. It ignores uses, because they last longer than lifetime.
func (m *Model) expiresSoon(hits []limiter.Hit) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	trial := make(map[string]*limiter.State)
	for key, s := range m.Counters {
		kept := *s
		trial[key] = &kept
	}
	now := m.now()
	states := statesOf(hits, trial)
	kept := m.keptOf(hits, trial)
	for i := range kept {
		kept[i].Uses = nil
	}
	limiter.Decide(hits, states, kept, now.UnixMicro(), make([]limiter.Decision, len(hits)))
	soon := func(expiry int64) bool {
		return expiry > now.UnixMicro() && expiry < now.Add(lifetime).UnixMicro()
	}
	for i, s := range states {
		l, record := hits[i].Limit, kept[i].Record
		if soon(l.Expiry(*s)) || record != nil && soon(l.Record().Expiry(*record)) {
			return true
		}
	}
	return false
}

// statesOf returns the states of the counters of hits. It adds missing states to all.
func statesOf(hits []limiter.Hit, all map[string]*limiter.State) []*limiter.State {
	states := make([]*limiter.State, len(hits))
	for i := range hits {
		states[i] = stateOf(string(hits[i].Key), all)
	}
	return states
}

// stateOf returns the state of a key in all. It adds the state if it is missing.
func stateOf(key string, all map[string]*limiter.State) *limiter.State {
	if all[key] == nil {
		all[key] = new(limiter.State)
	}
	return all[key]
}
