package simulate

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"

	"weir/internal/offline/simulate/accesslog"
)

// Lines may be in the wrong order by a minute: a request is decided once lines a minute later
// have been read, or when more than maxWaiting requests wait.
const (
	disorder   = minute
	maxWaiting = 500_000
)

// source is a log that is read ahead of what is decided.
type source struct {
	Counts
	log    *accesslog.Source
	queue  chan (<-chan *batch) // of its blocks, in their order
	next   *batch               // the one that follows what was taken, nil at the end
	clock  int64                // how far its lines have come, of those taken
	failed error                // there when queue is closed, nil at the end of the log
}

// noTime is the clock before the first line.
const noTime = math.MinInt64 / 2

// reader reads all logs, and yields their requests in the order of their times.
type reader struct {
	shared
	sources []*source
	jobs    chan job
	workers []*worker
	blocks  sync.Pool // of *[]byte
	batches sync.Pool

	number  uint64
	waiting queue[*batch]
	count   int // of events in waiting
}

// job is a block that a worker makes a batch of.
type job struct {
	log   string
	block accesslog.Block
	done  chan<- *batch
}

// before reports whether the next event of b is the earlier one, or of two at the same time the one read first.
func (b *batch) before(o *batch) bool { //nolint:unused // queue calls it
	at, other := b.events[b.next].at, o.events[o.next].at
	return at < other || at == other && b.number < o.number
}

// newReader opens the logs, all of them before any is read.
func newReader(s shared) (*reader, error) {
	r := &reader{
		shared: s, jobs: make(chan job),
		blocks: sync.Pool{New: func() any { return new([]byte) }}, batches: sync.Pool{New: func() any { return new(batch) }},
	}
	for _, name := range s.opts.Logs {
		log, err := accesslog.Open(name)
		if err != nil {
			r.close()
			return nil, err
		}
		r.sources = append(r.sources, &source{log: log, clock: noTime, queue: make(chan (<-chan *batch), max(1, 8/len(s.opts.Logs)))})
	}
	for range runtime.GOMAXPROCS(0) {
		r.workers = append(r.workers, newWorker(&r.shared))
	}
	return r, nil
}

func (r *reader) close() {
	for _, s := range r.sources {
		_ = s.log.Close()
	}
}

// read calls took with each batch that was read and its lines that are ahead, and do with each request, in the
// order of their times, until ctx ends.
func (r *reader) read(ctx context.Context, took func(b *batch, ahead []lineTime), do func(b *batch, ev *event)) error {
	var feeding, working sync.WaitGroup
	defer working.Wait()
	defer func() { feeding.Wait(); close(r.jobs) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, w := range r.workers {
		working.Go(func() {
			for j := range r.jobs {
				b := r.batches.Get().(*batch)
				w.work(b, j.log, j.block)
				r.blocks.Put(&j.block.Data)
				j.done <- b
			}
		})
	}
	for _, s := range r.sources {
		feeding.Go(func() { r.feed(ctx, s) })
	}
	for _, s := range r.sources {
		if err := s.receive(ctx); err != nil {
			return err
		}
	}
	for {
		s := r.earliest()
		if s == nil {
			r.release(math.MaxInt64, do)
			return nil
		}
		b := s.next
		if err := s.receive(ctx); err != nil {
			return err
		}
		took(b, s.take(b))
		if len(b.events) > 0 {
			r.number++
			b.number = r.number
			r.count += len(b.events)
			heap.Push(&r.waiting, b)
		} else {
			r.batches.Put(b)
		}
		if s = r.earliest(); s != nil {
			r.release(s.clock-disorder, do)
		}
	}
}

// feed reads a log, and has its blocks parsed by any worker.
func (r *reader) feed(ctx context.Context, s *source) {
	defer close(s.queue)
	for {
		block, err := s.log.Next(*r.blocks.Get().(*[]byte))
		if errors.Is(err, io.EOF) {
			return
		}
		if s.failed = err; err != nil {
			return
		}
		done := make(chan *batch, 1)
		select {
		case s.queue <- done:
		case <-ctx.Done():
			return
		}
		select {
		case r.jobs <- job{s.log.Name, block, done}:
		case <-ctx.Done():
			return
		}
	}
}

// receive sets the next batch of a log.
func (s *source) receive(ctx context.Context) error {
	s.next = nil
	select {
	case done, more := <-s.queue:
		if !more {
			return ctx.Err() // which ends the queue, too
		}
		select {
		case s.next = <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// earliest returns the log that must be read next, nil if all are at their end.
func (r *reader) earliest() (first *source) {
	for _, s := range r.sources {
		if s.next != nil && (first == nil || s.clock < first.clock) {
			first = s
		}
	}
	return first
}

// release yields the requests up to a time, before which no line will come anymore.
func (r *reader) release(until int64, do func(b *batch, ev *event)) {
	for len(r.waiting) > 0 {
		b := r.waiting[0]
		ev := &b.events[b.next]
		if ev.at > until && r.count <= maxWaiting {
			return
		}
		do(b, ev)
		r.count--
		if b.next++; b.next < len(b.events) {
			heap.Fix(&r.waiting, 0)
		} else {
			heap.Pop(&r.waiting)
			r.batches.Put(b)
		}
	}
}

// take moves the clock by the lines of a batch. A line that is ahead of most lines that follow does not move it:
// those would all be late. It gets the time of the clock, and is returned.
func (s *source) take(b *batch) (ahead []lineTime) {
	s.add(&b.Counts)
	following := b.times
	if s.next != nil {
		following = slices.Concat(b.times, s.next.times)
	}
	for i := range b.times {
		t := &b.times[i]
		if t.at > s.clock+disorder && isAhead(t.at, following[i+1:]) {
			ahead = append(ahead, *t)
			if t.at = s.clock; s.clock == noTime {
				t.at = middle(following[i+1:])
			}
			continue
		}
		s.clock = max(s.clock, t.at)
	}
	if len(ahead) > 0 {
		for i := range b.events {
			ev := &b.events[i]
			ev.at = b.times[ev.index].at / 1000 * 1000
		}
		b.sort()
	}
	return ahead
}

// isAhead reports whether most lines that follow a time are more than the allowed disorder before it.
// After a gap in a log, there is none.
func isAhead(at int64, following []lineTime) bool {
	before := 0
	for _, t := range following {
		if t.at < at-disorder {
			before++
		}
	}
	return 2*before > len(following)
}

// middle returns the middle one of times.
func middle(times []lineTime) int64 {
	var list []int64
	for _, t := range times {
		list = append(list, t.at)
	}
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

// useless is the error of a log that was read to its end without a line that can be read.
func (s *source) useless() error {
	switch name := plainName(s.log.Name); {
	case s.Lines > s.Unreadable:
		return nil
	case s.failed != nil && s.Lines == 0:
		return s.failed
	case s.Lines == 0:
		return fmt.Errorf("%s: there is no line", name)
	default:
		err := fmt.Errorf("%s: no line can be read", name)
		for _, w := range s.WrongLines {
			err = fmt.Errorf("%w\n%s", err, w)
		}
		if s.failed != nil {
			err = fmt.Errorf("%w\n%w", err, s.failed)
		}
		return err
	}
}
