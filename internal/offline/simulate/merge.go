package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"weir/internal/offline/simulate/accesslog"
)

// Lines may be in the wrong order by a minute: a request is decided once lines a minute later
// have been read, or when more than maxWaiting requests wait.
const (
	disorder   = minute
	maxWaiting = 500_000
)

// merger reads all logs, and yields their requests in the order of their times.
type merger struct {
	sources []*source
	batches sync.Pool // to use again
	number  uint64    // of batches
	waiting queue[*batch]
	count   int // of events in waiting
}

// source is a log that is read ahead of what is decided.
type source struct {
	Counts
	worker *worker
	log    *accesslog.Source
	queue  chan *batch // of its blocks, in their order
	next   *batch      // the one that follows what was taken, nil at the end
	clock  int64       // how far its lines have come, of those taken
	failed error       // there when queue is closed, nil at the end of the log
}

// noTime is the clock before the first line.
const noTime = math.MinInt64 / 2

// before reports whether the next event of b is the earlier one, or of two at the same time the one read first.
func (b *batch) before(o *batch) bool { //nolint:unused // queue calls it
	at, other := b.events[b.next].at, o.events[o.next].at
	return at < other || at == other && b.number < o.number
}

// feed reads a log, and makes a batch of each of its blocks.
func (m *merger) feed(ctx context.Context, s *source) {
	defer close(s.queue)
	for {
		b, ok := m.batches.Get().(*batch)
		if !ok {
			b = new(batch)
		}
		lines, first, err := s.log.Next(b.data)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.failed = err
			}
			return
		}
		s.worker.work(b, s.log.Name, lines, first)
		select {
		case s.queue <- b:
		case <-ctx.Done():
			return
		}
	}
}

// receive takes a batch of a log, and sets the next.
func (s *source) receive(ctx context.Context) {
	if b := s.next; b != nil {
		s.add(&b.Counts)
		s.clock = max(s.clock, b.clock)
	}
	s.next = nil
	select {
	case s.next = <-s.queue:
	case <-ctx.Done():
	}
}

// earliest returns the log that must be read next, nil if all are at their end.
func (m *merger) earliest() (first *source) {
	for _, s := range m.sources {
		if s.next != nil && (first == nil || s.clock < first.clock) {
			first = s
		}
	}
	return first
}

// wait lets the requests of a batch wait for their turn.
func (m *merger) wait(b *batch) {
	if len(b.events) == 0 {
		m.batches.Put(b)
		return
	}
	m.number++
	b.number = m.number
	m.count += len(b.events)
	heap.Push(&m.waiting, b)
}

// release yields the requests up to a time, before which no line will come anymore.
func (m *merger) release(until int64, do func(b *batch, ev *event)) {
	for len(m.waiting) > 0 {
		b := m.waiting[0]
		ev := &b.events[b.next]
		if ev.at > until && m.count <= maxWaiting {
			return
		}
		do(b, ev)
		m.count--
		if b.next++; b.next < len(b.events) {
			heap.Fix(&m.waiting, 0)
		} else {
			heap.Pop(&m.waiting)
			m.batches.Put(b)
		}
	}
}

// useless is the error of a log that was read to its end without a readable line.
func (s *source) useless() error {
	name := s.log.Name
	switch {
	case s.Lines > s.Unreadable:
		return nil
	case s.Lines == 0:
		return cmp.Or(s.failed, fmt.Errorf("%s: the log is empty", name))
	}
	lines := []error{fmt.Errorf("%s: no readable line", name)}
	for _, w := range s.WrongLines {
		lines = append(lines, errors.New(w.String()))
	}
	return errors.Join(append(lines, s.failed)...)
}
