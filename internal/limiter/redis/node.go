package redis

import (
	"runtime"
	"sync"
)

// node makes the calls to one server: to the one Redis there is, or to one primary
// of a cluster. It makes one after the other. Each carries the next batch of every
// lane that has one, in one pipeline, so that the slots of a primary share writes,
// reads and wake-ups. What arrives during a call goes into the next.
type node struct {
	*backend
	client caller

	mu      sync.Mutex
	lanes   []*lane // that wait for a call, first come first served
	serving bool    // a goroutine makes calls until no lane waits
}

// add has a lane wait for the next call.
func (n *node) add(l *lane) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lanes = append(n.lanes, l)
	if !n.serving {
		n.serving = true
		go n.serve()
	}
}

// serve makes calls, one after the other, until no lane waits. While the breaker is
// open, the batches fail at once.
func (n *node) serve() {
	for {
		// Requests that have arrived, but whose goroutines did not have their turn
		// yet, come along: a fifth fewer calls on busy processors, no wait on idle ones.
		runtime.Gosched()
		batches := n.next()
		if batches == nil {
			return
		}
		elsewhere := make([]bool, len(batches))
		if n.breaker.isOpen() {
			for _, b := range batches {
				b.err = errOpen
			}
		} else {
			elsewhere = n.call(n.client, batches)
		}
		for i, b := range batches {
			if elsewhere[i] {
				go b.lane.callAlone(b)
			} else {
				b.lane.done(b)
			}
		}
	}
}

// next takes out a batch of each lane that waits, until there are enough for a call.
// It returns nil if there is none. Then the caller makes no more calls.
func (n *node) next() (batches []*batch) {
	for hits := 0; hits < maxBatch; {
		n.mu.Lock()
		if len(n.lanes) == 0 {
			n.serving = batches != nil
			n.mu.Unlock()
			break
		}
		l := n.lanes[0]
		n.lanes = n.lanes[1:]
		isLast := len(n.lanes) == 0
		n.mu.Unlock()
		if b := l.next(isLast); b != nil {
			batches = append(batches, b)
			hits += len(b.hits)
		}
	}
	return batches
}

// isIdle reports whether no calls are made.
func (n *node) isIdle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.serving
}
