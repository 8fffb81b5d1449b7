package simulate

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
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
	log    *accesslog.Source
	open   bool
	begun  bool // after was read
	ended  bool
	seen   int64                // time up to which its lines were read
	clock  clock                // of the lines that were read
	queue  chan (<-chan *batch) // of its blocks, in their order
	after  *batch               // the one that follows what was read, nil at the end
	failed error
	lines  int64
	good   int64
	wrong  []WrongLine // the first ones
}

// reader reads all logs, and yields their requests in the order of their times.
type reader struct {
	shared
	sources []*source
	jobs    chan job
	workers []*worker
	group   sync.WaitGroup
	blocks  chan []byte
	batches chan *batch

	number  uint64
	waiting batchHeap
	count   int // of events in waiting
}

// batchHeap has the batch with the earliest event first, of several the one read first.
type batchHeap []*batch

func (h batchHeap) Len() int { return len(h) }
func (h batchHeap) Less(i, j int) bool {
	a, b := h[i].events[h[i].next].at, h[j].events[h[j].next].at
	return a < b || a == b && h[i].number < h[j].number
}
func (h batchHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *batchHeap) Push(x any) { *h = append(*h, x.(*batch)) }

// Pop implements heap.Interface.
func (h *batchHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

// newReader opens the logs, all of them before any is read.
func newReader(s shared) (*reader, error) {
	workers := cmp.Or(s.opts.Workers, runtime.GOMAXPROCS(0))
	r := &reader{
		shared: s, jobs: make(chan job, workers),
		blocks: make(chan []byte, 4*workers), batches: make(chan *batch, 8*workers),
	}
	for _, name := range s.opts.Logs {
		log, err := accesslog.Open(name)
		if err != nil {
			r.close()
			return nil, err
		}
		src := &source{log: log, seen: math.MinInt64, clock: newClock()}
		if log.Size > 0 {
			if src.seen, err = firstTime(name, s.opts); err != nil {
				r.close()
				return nil, err
			}
		}
		r.sources = append(r.sources, src)
	}
	for range workers {
		r.workers = append(r.workers, newWorker(&r.shared))
	}
	return r, nil
}

func (r *reader) close() {
	for _, s := range r.sources {
		_ = s.log.Close()
	}
}

// firstTime returns the time at which a file begins by its first lines, the earliest time if none of them
// can be read.
func firstTime(name string, opts *Options) (int64, error) {
	log, err := accesslog.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	b, err := log.Next(make([]byte, 0, accesslog.BlockSize))
	if err != nil {
		return math.MinInt64, nil // reading the log returns the error again
	}
	parser, record, times := accesslog.NewParser(opts.Format, opts.Mapping), accesslog.Record{}, []lineTime(nil)
	for line := range bytes.Lines(b.Data) {
		if parser.Parse(bytes.TrimRight(line, "\r\n"), &record) == nil {
			times = append(times, lineTime{at: record.At})
		}
	}
	return firstOf(times), nil
}

// read calls took with each batch that was read, and do with each request, in the order of
// their times, until ctx ends.
func (r *reader) read(ctx context.Context, do func(b *batch, ev *event), took func(b *batch), report *Report) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.group.Wait()
	defer cancel()
	for _, w := range r.workers {
		r.group.Go(func() {
			for {
				select {
				case j := <-r.jobs:
					w.work(j)
					j.done <- j.into
					give(r.blocks, j.buf)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	open := len(r.sources)
	for open > 0 {
		s := r.earliest()
		if !s.open {
			s.open = true
			s.queue = make(chan (<-chan *batch), max(1, 8/len(r.sources)))
			r.group.Go(func() { r.feed(ctx, s) })
		}
		b, more, err := s.next(ctx)
		if err != nil {
			return err
		}
		if !more {
			s.ended = true
			open--
			s.end(report)
			continue
		}
		report.ahead.add(b.log, s.take(b))
		took(b)
		if len(b.events) > 0 {
			r.number++
			b.number = r.number
			r.count += len(b.events)
			heap.Push(&r.waiting, b)
		} else {
			give(r.batches, b)
		}
		r.release(r.earliest(), do)
	}
	r.release(nil, do)
	return nil
}

// earliest returns the source that must be read next, nil if all are at their end.
func (r *reader) earliest() (first *source) {
	for _, s := range r.sources {
		if !s.ended && (first == nil || s.seen < first.seen) {
			first = s
		}
	}
	return first
}

// release yields the requests that no line still to come can precede. The next is of s, nil
// at the end.
func (r *reader) release(s *source, do func(b *batch, ev *event)) {
	until := int64(math.MaxInt64)
	if s != nil && s.seen >= math.MinInt64+disorder {
		until = s.seen - disorder
	} else if s != nil {
		until = math.MinInt64
	}
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
			give(r.batches, b)
		}
	}
}

// feed reads a log, and has its blocks parsed by any worker.
func (r *reader) feed(ctx context.Context, s *source) {
	defer close(s.queue)
	for {
		buf := takeOr(r.blocks, func() []byte { return make([]byte, 0, accesslog.BlockSize) })
		block, err := s.log.Next(buf)
		if err != nil {
			s.failed = err
			return
		}
		done := make(chan *batch, 1)
		j := job{log: s.log.Name, block: block, buf: buf, into: takeOr(r.batches, func() *batch { return new(batch) }), done: done}
		select {
		case s.queue <- done:
		case <-ctx.Done():
			return
		}
		select {
		case r.jobs <- j:
		case <-ctx.Done():
			return
		}
	}
}

// next returns the next batch of a source. The one after it is read, too.
func (s *source) next(ctx context.Context) (b *batch, more bool, err error) {
	if !s.begun {
		s.begun = true
		if s.after, err = s.receive(ctx); err != nil {
			return nil, false, err
		}
	}
	if b = s.after; b == nil {
		return nil, false, nil
	}
	s.after, err = s.receive(ctx)
	return b, true, err
}

// receive returns the next batch that is parsed, nil at the end.
func (s *source) receive(ctx context.Context) (*batch, error) {
	select {
	case done, more := <-s.queue:
		if !more {
			return nil, ctx.Err() // which ends the queue, too
		}
		select {
		case b := <-done:
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take counts the lines of a batch, and puts those that are ahead in their place.
func (s *source) take(b *batch) (ahead []lineTime) {
	if ahead = s.clock.take(b, s.after); len(ahead) > 0 {
		b.move(ahead)
	}
	s.seen = max(s.seen, s.clock.at)
	s.lines += b.lines
	s.good += b.lines - b.bad
	s.wrong = append(s.wrong, b.wrong[:min(len(b.wrong), maxShown-len(s.wrong))]...)
	return ahead
}

// end says what is wrong with a log that was read to its end.
func (s *source) end(report *Report) {
	if errors.Is(s.failed, io.EOF) {
		s.failed = nil
	}
	switch {
	case s.good == 0:
		report.useless = append(report.useless, s)
	case s.failed != nil:
		err := fmt.Errorf("%w; what comes after is not in this report", s.failed)
		report.warn("%v", err)
		report.cut = append(report.cut, err)
	}
}

// useless is the error of a log without a line that can be read.
func (s *source) useless() error {
	switch name := plainName(s.log.Name); {
	case s.failed != nil && s.lines == 0:
		return s.failed
	case s.lines == 0:
		return fmt.Errorf("%s: there is no line", name)
	default:
		err := fmt.Errorf("%s: no line can be read", name)
		for _, w := range s.wrong {
			err = fmt.Errorf("%w\n%s", err, w)
		}
		if s.failed != nil {
			err = fmt.Errorf("%w\n%w", err, s.failed)
		}
		return err
	}
}

// give puts something back for takeOr, unless there is enough.
func give[T any](to chan T, item T) {
	select {
	case to <- item:
	default:
	}
}

func takeOr[T any](from chan T, make func() T) T {
	select {
	case item := <-from:
		return item
	default:
		return make()
	}
}
