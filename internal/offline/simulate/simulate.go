package simulate

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/simulate/accesslog"
	"weir/internal/plan"
)

// Options say what is replayed.
type Options struct {
	Logs    []string // files; a dash is the standard input
	Format  accesslog.Format
	Mapping accesslog.Mapping
	Envoy   *envoyconfig.Config
	Rules   *descriptors.Tree
	Old     *descriptors.Tree // nil: nothing is compared
	Plan    plan.Options      // of the server
	Suggest bool              // amounts
	Denied  io.Writer         // takes a line for each request that is denied; nil: none is written
	// Progress, if it is not nil, is called now and then, with the lines that were read.
	Progress func(lines int64)
}

// run is one replay.
type run struct {
	*Options
	sources  []*source
	batches  sync.Pool // to use again
	number   uint64    // of batches
	waiting  queue[*batch]
	events   int          // in waiting
	seed     maphash.Seed // of the hashes of keys, which no client can make alike
	engine   *engine
	old      *engine // nil unless rules are compared
	report   *Report
	list     *bufio.Writer // for Denied
	shownAt  time.Time
	clock    int64 // of the request decided last
	nowOnly  difference
	wereOnly difference
}

// Lines may be in the wrong order by a minute: a request is decided once lines a minute later
// have been read, or when more than maxWaiting requests wait.
const (
	disorder   = minute
	maxWaiting = 500_000
)

// Run replays the logs. The error is about a log that cannot be opened or has no line that
// can be read, or that of ctx.
func Run(ctx context.Context, opts Options) (*Report, error) {
	r := &run{Options: &opts, seed: maphash.MakeSeed(), report: newReport(&opts), list: bufio.NewWriter(opts.Denied)}
	r.engine = newEngine("the rules", opts.Rules, &opts, opts.Suggest)
	if opts.Old != nil {
		r.old = newEngine("the old rules", opts.Old, &opts, false)
	}
	for _, name := range opts.Logs { // all of them before any is read
		log, err := accesslog.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = log.Close() }()
		log.Name = plaintext.Line(log.Name)
		r.sources = append(r.sources, newSource(r, log))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // the tables are large and hold no pointers: to collect often costs little
	if err := r.replay(ctx); err != nil {
		return nil, err
	}
	useless := []error{r.list.Flush()}
	for _, s := range r.sources {
		useless = append(useless, s.useless())
	}
	if err := errors.Join(useless...); err != nil {
		return nil, err
	}
	r.finish()
	return r.report, nil
}

// replay decides the requests of all logs in the order of their times.
func (r *run) replay(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, s := range r.sources {
		go s.read(ctx)
		s.next = <-s.batches
	}
	// earliest returns the log that must be read next, nil if all are at their end.
	earliest := func() (first *source) {
		for _, s := range r.sources {
			if s.next != nil && (first == nil || s.clock < first.clock) {
				first = s
			}
		}
		return first
	}
	for s := earliest(); s != nil && ctx.Err() == nil; s = earliest() {
		b := s.next
		s.next = <-s.batches
		s.add(&b.Counts)
		s.clock = max(s.clock, b.clock)
		r.report.add(&b.Counts)
		r.wait(b)
		if s = earliest(); s != nil {
			r.release(s.clock - disorder)
		}
		if now := time.Now(); r.Progress != nil && now.Sub(r.shownAt) > 200*time.Millisecond {
			r.shownAt = now
			r.Progress(r.report.Lines)
		}
	}
	r.release(math.MaxInt64)
	return ctx.Err()
}

// wait lets the requests of a batch wait for their turn.
func (r *run) wait(b *batch) {
	if len(b.events) == 0 {
		r.batches.Put(b)
		return
	}
	r.number++
	b.number = r.number
	r.events += len(b.events)
	heap.Push(&r.waiting, b)
}

// release decides the requests up to a time, before which no line will come anymore.
func (r *run) release(until int64) {
	for len(r.waiting) > 0 {
		b := r.waiting[0]
		ev := &b.events[b.next]
		if ev.at > until && r.events <= maxWaiting {
			return
		}
		r.decide(b, ev)
		r.events--
		if b.next++; b.next < len(b.events) {
			heap.Fix(&r.waiting, 0)
		} else {
			heap.Pop(&r.waiting)
			r.batches.Put(b)
		}
	}
}

// decide decides a request.
func (r *run) decide(b *batch, ev *event) {
	if ev.at < r.clock {
		r.report.Late++
		r.report.firstLate = cmp.Or(r.report.firstLate, fmt.Sprintf("%s:%d", b.log, ev.line))
	}
	r.clock = max(r.clock, ev.at)
	if r.report.First.IsZero() {
		r.report.First = time.UnixMicro(r.clock).UTC()
	}
	deniedBy := r.engine.decide(&ev.now, r.clock, ev.duration)
	if deniedBy != nil && r.Denied != nil { // an error comes again at the end
		fmt.Fprintf(r.list, "%s:%d\t%s\t%s\t%s\n", b.log, ev.line,
			ruleName(deniedBy.of), deniedBy.of.limit.Rate(), clientName(deniedBy.Key))
	}
	if r.old == nil {
		return
	}
	wasBy := r.old.decide(&ev.old, r.clock, ev.duration)
	r.nowOnly.add(&ev.now, deniedBy, wasBy)
	r.wereOnly.add(&ev.old, wasBy, deniedBy)
}
