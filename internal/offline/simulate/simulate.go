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
	"slices"
	"sync"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/simulate/accesslog"
	"weir/internal/plan"
)

// Options are the logs to replay, with the configuration and the rules for them.
type Options struct {
	Logs    []string // names of files, or a dash for the standard input
	Format  accesslog.Format
	Mapping accesslog.Mapping
	Envoy   *envoyconfig.Config
	Rules   *descriptors.Tree
	Old     *descriptors.Tree // rules to compare with, or nil
	Plan    plan.Options      // settings of the server
	Shares  []float64         // shares of denied clients for which to suggest amounts, ascending
	Denied  io.Writer         // gets a line for each denied request; nil disables it
	// Progress, if not nil, is called up to five times a second with the number of lines so far, and
	// with the share of the logs that has been read, or 0 if their size is unknown.
	Progress func(lines int64, share float64)
}

// run is the state of one call of Run.
type run struct {
	*Options
	sources  []*source
	batches  sync.Pool // batches to reuse
	number   uint64    // number of the last batch
	waiting  queue[*batch]
	events   int          // number of events in waiting
	seed     maphash.Seed // seed of key hashes, random so that clients cannot cause collisions
	engine   *engine
	old      *engine // nil unless rules are compared
	report   *Report
	list     *bufio.Writer // buffers writes to Denied
	shownAt  time.Time
	clock    int64 // time of the last decided request
	nowOnly  difference
	wereOnly difference
}

// The lines of a log may be out of order by up to disorder. A request is decided when every log has been read
// up to a line that is at least disorder later, or when more than maxWaiting requests wait.
const (
	disorder   = minute
	maxWaiting = 500_000
)

// Run replays the logs. It fails if a log cannot be opened or has no readable line, if a write to
// Denied fails, or if ctx is done. For a log that cannot be read to its end, see Report.Err.
func Run(ctx context.Context, opts Options) (*Report, error) {
	r := &run{Options: &opts, seed: maphash.MakeSeed(), list: bufio.NewWriter(opts.Denied)}
	r.report = &Report{Limits: []LimitReport{}, Shares: opts.Shares}
	for _, n := range opts.Envoy.Notes {
		r.report.note("%s", n)
	}
	r.batches.New = func() any { return new(batch) }
	r.engine = newEngine("the rules", opts.Rules, &opts, len(opts.Shares) > 0)
	if opts.Old != nil {
		r.old = newEngine("the old rules", opts.Old, &opts, false)
	}
	for _, name := range opts.Logs { // open all logs before reading any
		log, err := accesslog.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = log.Close() }()
		log.Name = plaintext.Line(log.Name)
		r.sources = append(r.sources, &source{
			run: r, log: log, parser: accesslog.NewParser(opts.Format, opts.Mapping), planner: plan.New(opts.Plan),
			names: map[string]bool{}, domains: map[string]bool{}, batches: make(chan *batch, 4), clock: noTime,
		})
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // the tables are large, but have few pointers, so frequent collections are cheap
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
	ended := func(s *source) bool { return s.next == nil }
	byClock := func(a, b *source) int { return cmp.Compare(a.clock, b.clock) }
	for open := slices.DeleteFunc(slices.Clone(r.sources), ended); len(open) > 0 && ctx.Err() == nil; {
		s := slices.MinFunc(open, byClock)
		b := s.next
		s.next = <-s.batches
		s.add(&b.Counts)
		s.clock = max(s.clock, b.clock)
		r.report.add(&b.Counts)
		if len(b.events) > 0 {
			r.number++
			b.number = r.number
			r.events += len(b.events)
			heap.Push(&r.waiting, b)
		} else {
			r.batches.Put(b)
		}
		if open = slices.DeleteFunc(open, ended); len(open) > 0 {
			r.release(slices.MinFunc(open, byClock).clock - disorder)
		}
		if now := time.Now(); r.Progress != nil && now.Sub(r.shownAt) > 200*time.Millisecond {
			r.shownAt = now
			r.Progress(r.report.Lines, r.share())
		}
	}
	r.release(math.MaxInt64)
	return ctx.Err()
}

// share returns the share of the logs that has been read, or 0 if the size of any log is unknown.
func (r *run) share() float64 {
	var read, size int64
	for _, s := range r.sources {
		done, all := s.log.Progress()
		if all == 0 {
			return 0
		}
		read, size = read+done, size+all
	}
	return float64(read) / float64(size)
}

// release decides the waiting requests up to a time. A line from before that time is late if it is read afterwards.
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

// decide decides a request. It also counts requests that are late.
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
	if deniedBy != nil && r.Denied != nil { // Flush returns any error
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
