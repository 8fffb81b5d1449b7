package rls

import (
	"cmp"
	"context"
	"sync"
)

// Arrivals has a server's calls whose messages are not complete yet. The server ends calls that wait
// too long. A deadline for each call would cost more: a twelfth of the CPU time of a decision.
type Arrivals struct {
	mu    sync.Mutex
	calls arriving // sentinel of a ring of calls; next is the oldest
	len   int
	most  int
	turn  int
}

// NewArrivals returns an empty Arrivals. Its maximum number of calls is most.
func NewArrivals(most int) *Arrivals {
	a := &Arrivals{most: most}
	a.calls.next, a.calls.last = &a.calls, &a.calls
	return a
}

// Begin adds a call with the context ctx, and returns the context for waiting for its message. If
// there are too many calls, the oldest is ended, because messages of well-behaved clients arrive
// immediately.
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

// end stops a call from waiting for its message.
func (a *Arrivals) end(c *arriving) {
	c.end()
	a.remove(c)
}

// remove removes a call unless it has been removed.
func (a *Arrivals) remove(c *arriving) {
	if c.next != nil {
		c.next.last, c.last.next = c.last, c.next
		c.next, c.last = nil, nil
		a.len--
	}
}

// Turn begins a new turn. It ends each call that began at least the given number of turns ago,
// or whose client gave up.
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

// Arrived returns the context for a call whose message is complete, with the values of ctx. If ctx
// comes from Begin, Arrived removes the call from its [Arrivals]. Otherwise, Arrived returns ctx.
func Arrived(ctx context.Context) context.Context {
	c, ok := ctx.Value(arrivingKey{}).(*arriving)
	if !ok {
		return ctx
	}
	c.arrivals.mu.Lock()
	defer c.arrivals.mu.Unlock()
	c.values = ctx
	c.arrivals.remove(c)
	return (*arrived)(c)
}

// ArrivedStream is like Arrived, for a stream. In addition, a blocked send returns when the stream ends.
func ArrivedStream(ctx context.Context) context.Context {
	ctx = Arrived(ctx)
	if c, ok := ctx.(*arrived); ok {
		context.AfterFunc(c.Context, (*arriving)(c).end)
	}
	return ctx
}

type arrivingKey struct{}

// arriving is the context of a call that waits for its message, and arrived is the call's context
// after that. The two share an allocation, because each call has both.
type (
	arriving struct {
		context.Context // context of the call
		ended           chan struct{}
		values          context.Context // context of arrived's values
		arrivals        *Arrivals

		turn       int // turn in which the call began
		last, next *arriving
	}
	arrived arriving
)

func (c *arriving) Done() <-chan struct{} { return c.ended }

// end closes c.ended unless it is closed.
func (c *arriving) end() {
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
}

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
