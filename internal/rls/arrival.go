package rls

import (
	"cmp"
	"context"
	"sync"
)

// Arrivals are a server's calls without a complete message. A server ends calls that wait too
// long, at less cost than by a deadline for each call, which would be a twelfth of the CPU time
// of a decision.
type Arrivals struct {
	mu    sync.Mutex
	calls arriving // the end of a ring of calls, the oldest first
	len   int
	most  int
	turn  int
}

// NewArrivals returns Arrivals for at most the given number of calls.
func NewArrivals(most int) *Arrivals {
	a := &Arrivals{most: most}
	a.calls.next, a.calls.last = &a.calls, &a.calls
	return a
}

// Begin adds a call with the context ctx, and returns the context in which to wait for its
// message. If there are too many calls, it ends the oldest, because the messages of well-behaved
// clients arrive at once.
func (a *Arrivals) Begin(ctx context.Context) context.Context {
	c := &arriving{Context: ctx, ended: make(chan struct{}), arrivals: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	c.turn, c.next, c.last = a.turn, &a.calls, a.calls.last
	c.next.last, c.last.next = c, c
	if a.len++; a.len > a.most {
		a.end(a.calls.next)
	}
	return c
}

// end ends the wait of a call for its message.
func (a *Arrivals) end(c *arriving) {
	close(c.ended)
	a.remove(c)
}

// remove removes a call, unless it has been removed.
func (a *Arrivals) remove(c *arriving) {
	if c.next != nil {
		c.next.last, c.last.next = c.last, c.next
		c.next, c.last = nil, nil
		a.len--
	}
}

// Turn begins another turn. It ends each call that began the given number of turns ago or
// earlier, or whose client gave up.
func (a *Arrivals) Turn(turns int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var next *arriving
	for c := a.calls.next; c != &a.calls; c = next {
		next = c.next
		if a.turn-c.turn >= turns || c.Context.Err() != nil {
			a.end(c)
		}
	}
	a.turn++
}

// Arrived returns the context for a call after its message is complete, and removes the call from
// its [Arrivals], if it has any.
func Arrived(ctx context.Context) context.Context {
	c, ok := ctx.Value(arrivingKey{}).(*arriving)
	if !ok {
		return ctx
	}
	c.arrivals.mu.Lock()
	defer c.arrivals.mu.Unlock()
	c.arrivals.remove(c)
	c.values = ctx
	return (*arrived)(c)
}

type arrivingKey struct{}

// arriving and arrived share an allocation, because each call has both. The wait for a message
// stops with the first, the wait for Redis with the second.
type (
	arriving struct {
		context.Context // of the call
		ended           chan struct{}
		values          context.Context // of arrived
		arrivals        *Arrivals

		turn       int // in which it began
		last, next *arriving
	}
	arrived arriving
)

func (c *arriving) Done() <-chan struct{} { return c.ended }

func (c *arriving) Err() error {
	select {
	case <-c.ended:
		return cmp.Or(c.Context.Err(), context.DeadlineExceeded)
	default:
		return c.Context.Err()
	}
}

func (c *arriving) Value(key any) any {
	if key == (arrivingKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *arrived) Value(key any) any { return c.values.Value(key) }
