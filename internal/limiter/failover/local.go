package failover

import (
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// calm is how long nothing was counted in memory when the primary store counts
// as back. A store of which a part fails, such as a node of a cluster, must not
// make the counters of that part start anew with everything that another part
// decides.
const calm = 10 * time.Second

// local counts in memory during an outage, and gives the memory back after it.
type local struct {
	open    func() limiter.CounterStore
	began   time.Time
	counted atomic.Int64                         // when, since began
	current atomic.Pointer[limiter.CounterStore] // nil: there is no outage
}

func newLocal(open func() limiter.CounterStore) local {
	return local{open: open, began: time.Now()}
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

// primaryDecided ends the outage, if there is one, when it has been calm.
func (l *local) primaryDecided() {
	s := l.current.Load()
	if s != nil && time.Since(l.began)-time.Duration(l.counted.Load()) >= calm {
		l.current.CompareAndSwap(s, nil)
	}
}
