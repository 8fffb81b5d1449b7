package failover

import (
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// calm is how long nothing was counted in memory when the store counts as back. One of
// which a part fails, such as a node of a cluster, must not make the counters of that
// part start anew with everything that another part decides.
const calm = 10 * time.Second

// local counts in memory during an outage, and gives the memory back after it.
type local struct {
	open    func() limiter.CounterStore
	began   time.Time
	counted atomic.Int64                         // when, since began
	current atomic.Pointer[limiter.CounterStore] // nil: there is no outage
}

// store returns the store of the outage.
func (l *local) store() limiter.CounterStore {
	l.counted.Store(int64(time.Since(l.began)))
	for {
		if s := l.current.Load(); s != nil {
			return *s
		}
		s := l.open()
		l.current.CompareAndSwap(nil, &s)
	}
}
