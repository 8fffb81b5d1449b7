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

	held *work // which did not fit into the last call; of the goroutine that serves
}

// work is a batch that a lane has made.
type work struct {
	lane  *lane
	batch *batch
}

// add has a lane wait for the next call.
func (n *node) add(l *lane) {
	n.mu.Lock()
	n.lanes = append(n.lanes, l)
	start := !n.serving
	n.serving = true
	n.mu.Unlock()
	if start {
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
		n.call(batches)
	}
}

// next takes out a batch of each lane that waits, as far as they fit into one call.
// It returns nil if there is none. Then the caller makes no more calls.
func (n *node) next() []work {
	var list []work
	hits := 0
	for {
		w := n.held
		if n.held = nil; w == nil {
			if w = n.take(len(list) == 0); w == nil {
				return list
			}
		}
		if len(list) > 0 && hits+w.batch.weight() > maxBatch {
			n.held = w
			return list
		}
		list = append(list, *w)
		hits += w.batch.weight()
	}
}

// take takes out the next batch of the lane that has waited longest. It returns nil
// if there is none. Then the caller makes no more calls, if it has nothing to call.
func (n *node) take(idle bool) *work {
	for {
		n.mu.Lock()
		if len(n.lanes) == 0 {
			n.serving = !idle
			n.mu.Unlock()
			return nil
		}
		l := n.lanes[0]
		n.lanes[0] = nil
		n.lanes = n.lanes[1:]
		isLast := len(n.lanes) == 0
		n.mu.Unlock()
		if b := l.queue.next(isLast); b != nil {
			return &work{l, b}
		}
	}
}

// call calls batches, all of different lanes.
func (n *node) call(list []work) {
	if n.breaker.isOpen() {
		for _, w := range list {
			w.batch.err = errOpen
			w.lane.done(w.batch)
		}
		return
	}
	batches := make([]*batch, len(list))
	for i, w := range list {
		batches[i] = w.batch
	}
	elsewhere := n.callAll(n.client, batches)
	for i, w := range list {
		if elsewhere[i] {
			go w.lane.callAlone(w.batch)
		} else {
			w.lane.done(w.batch)
		}
	}
}

// isIdle reports whether no calls are made.
func (n *node) isIdle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.serving
}
