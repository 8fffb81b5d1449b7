package plan

import (
	"sync"

	"weir/internal/limiter"
)

// maxMade bounds how many keys are remembered.
const maxMade = 4096

// made remembers the limits that were made for each key. When it is full it is emptied.
type made[K comparable] struct {
	mu    sync.RWMutex
	known map[K][]*limiter.Limit
}

// get returns the limits of key. It makes them if they are not known; an error is not
// remembered.
func (m *made[K]) get(key K, create func() ([]*limiter.Limit, error)) ([]*limiter.Limit, error) {
	m.mu.RLock()
	limits, known := m.known[key]
	m.mu.RUnlock()
	if known {
		return limits, nil
	}
	limits, err := create()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxMade {
		m.known = map[K][]*limiter.Limit{}
	}
	m.known[key] = limits
	return limits, nil
}
