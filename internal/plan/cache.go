package plan

import (
	"sync"

	"weir/internal/limiter"
)

// maxCached is the maximum number of keys in a cache.
const maxCached = 4096

// cache has the limits of each key. When it is full, it is emptied.
type cache[K comparable] struct {
	mu    sync.RWMutex
	known map[K][]*limiter.Limit
}

// get returns the limits of key. If the cache does not have them, get calls create and keeps its
// limits. get returns an error of create, but does not keep it.
func (c *cache[K]) get(key K, create func() ([]*limiter.Limit, error)) ([]*limiter.Limit, error) {
	c.mu.RLock()
	limits, known := c.known[key]
	c.mu.RUnlock()
	if known {
		return limits, nil
	}
	limits, err := create()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCached {
		c.known = map[K][]*limiter.Limit{}
	}
	c.known[key] = limits
	return limits, nil
}
