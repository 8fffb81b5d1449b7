package plan

import "sync"

// maxMade bounds how many values are remembered.
const maxMade = 4096

// made remembers what was made for each key. When it is full it starts anew.
type made[K comparable, V any] struct {
	mu    sync.RWMutex
	known map[K]V
}

// get returns the value of key. It makes it if it is not known; an error is not remembered.
func (m *made[K, V]) get(key K, make func() (V, error)) (V, error) {
	m.mu.RLock()
	v, known := m.known[key]
	m.mu.RUnlock()
	if known {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return v, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxMade {
		m.known = map[K]V{}
	}
	m.known[key] = v
	return v, nil
}
