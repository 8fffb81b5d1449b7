package simulate

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"runtime/debug"
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
	// Progress, if it is not nil, is called now and then.
	Progress func(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	Lines      int64
	Read, Size int64 // bytes of the files; Size is 0 if it is not known
	Elapsed    time.Duration
}

// run is one replay.
type run struct {
	*Options
	merger
	seed     maphash.Seed // of the hashes of keys, which no client can make alike
	engine   *engine
	old      *engine // nil unless rules are compared
	report   *Report
	list     *bufio.Writer // for Denied
	began    time.Time
	shownAt  time.Time
	clock    int64 // of the request decided last
	nowOnly  difference
	wereOnly difference
}

// Run replays the logs. The error is about a log that cannot be opened or has no line that
// can be read, or that of ctx.
func Run(ctx context.Context, opts Options) (*Report, error) {
	r := &run{Options: &opts, seed: maphash.MakeSeed(), report: newReport(&opts), list: bufio.NewWriter(opts.Denied), began: time.Now()}
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
		r.sources = append(r.sources, &source{worker: newWorker(r), log: log, clock: noTime, queue: make(chan *batch, 4)})
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
		go r.feed(ctx, s)
	}
	for _, s := range r.sources {
		s.receive(ctx)
	}
	for s := r.earliest(); s != nil; s = r.earliest() {
		b := s.next
		s.receive(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.report.add(&b.Counts)
		r.showProgress()
		r.wait(b)
		if s = r.earliest(); s != nil {
			r.release(s.clock-disorder, r.decide)
		}
	}
	r.release(math.MaxInt64, r.decide)
	return ctx.Err()
}

func (r *run) showProgress() {
	now := time.Now()
	if r.Progress == nil || now.Sub(r.shownAt) < 200*time.Millisecond {
		return
	}
	r.shownAt = now
	p := Progress{Lines: r.report.Lines, Elapsed: now.Sub(r.began)}
	for _, s := range r.sources {
		p.Read += s.log.Progress()
		p.Size += s.log.Size
	}
	r.Progress(p)
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
