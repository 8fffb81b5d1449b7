package exceptions

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
)

// Memory is a Store for the servers of one process. The zero value is empty.
type Memory struct {
	mu      sync.Mutex
	version Version
	records map[string]Record
}

var _ Store = (*Memory)(nil)

// changed changes the version. The caller holds m.mu.
func (m *Memory) changed() {
	if m.version.Epoch == "" {
		m.version.Epoch = rand.Text()
	}
	m.version.Count++
}

// Load implements Store.
func (m *Memory) Load(_ context.Context, known Version) ([]Record, Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == known {
		return nil, known, nil
	}
	return slices.Collect(maps.Values(m.records)), m.version, nil
}

// Add implements Store.
func (m *Memory) Add(_ context.Context, r Record, most int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.records[r.ID]; !known && len(m.records) >= most {
		return ErrFull
	}
	m.put(r)
	m.changed()
	return nil
}

// put keeps a record. The caller holds m.mu.
func (m *Memory) put(r Record) {
	if m.records == nil {
		m.records = make(map[string]Record)
	}
	m.records[r.ID] = Record{r.ID, slices.Clone(r.Body)}
}

// Remove implements Store.
func (m *Memory) Remove(_ context.Context, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.records[id]; !known {
		return false, nil
	}
	delete(m.records, id)
	m.changed()
	return true, nil
}

// Restore implements Store.
func (m *Memory) Restore(_ context.Context, records []Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.records)
	for _, r := range records {
		if _, known := m.records[r.ID]; !known {
			m.put(r)
		}
	}
	if len(m.records) > before {
		m.changed()
	}
	return nil
}

// Forget implements Store.
func (m *Memory) Forget(_ context.Context, ids []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.records, id)
	}
	return nil
}
