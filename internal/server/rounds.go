package server

import (
	"context"
	"errors"
	"sync"
)

// rounds let those who ask for a load share it: those who ask while one goes on
// wait for the next, which is one for all of them.
type rounds struct {
	asked chan struct{} // holds a value if there is a round to serve

	mu    sync.Mutex
	next  *round
	over  bool
	ended chan struct{} // closed when no round will be served any more
}

// round is a load that some wait for.
type round struct {
	done chan struct{} // closed when err is there
	err  error
}

func newRounds() *rounds {
	return &rounds{asked: make(chan struct{}, 1), ended: make(chan struct{})}
}

// errEnded is what those get who wait when the server ends.
var errEnded = errors.New("the server ends, it loads no rules any more")

// wait returns what the next load returns, or an error if ctx or the server ends
// before.
func (r *rounds) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
		r.asked <- struct{}{} // there is room: no other round is to be served
	}
	mine := r.next
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
		return errEnded
	}
}

// serve calls load for all who have asked. It is to be called for each value of
// asked, by one goroutine.
func (r *rounds) serve(load func() error) {
	r.mu.Lock()
	mine := r.next
	r.next = nil
	r.mu.Unlock()
	mine.err = load()
	close(mine.done)
}

// end tells all who wait, and who will, that there is no load any more.
func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over = true
		close(r.ended)
	}
}
