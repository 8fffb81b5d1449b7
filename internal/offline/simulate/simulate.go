package simulate

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime/debug"
	"time"

	"weir/internal/descriptors"
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
	opts     *Options
	reader   *reader
	engine   *engine
	old      *engine // nil unless rules are compared
	report   *Report
	began    time.Time
	shownAt  time.Time
	clock    int64 // of the request decided last
	nowOnly  difference
	wereOnly difference
	printErr error
}

// Run replays the logs. The error is about a log that cannot be opened or has no line that
// can be read, or that of ctx.
func Run(ctx context.Context, opts Options) (*Report, error) {
	s := shared{opts: &opts, seed: maphash.MakeSeed(), headers: opts.Envoy.Headers(), needs: opts.Envoy.Needs()}
	r := &run{opts: &opts, report: newReport(&opts), began: time.Now()}
	s.rules, r.engine = newEngine(opts.Rules, &opts, opts.Suggest)
	if opts.Old != nil {
		s.oldRules, r.old = newEngine(opts.Old, &opts, false)
	}
	var err error
	if r.reader, err = newReader(s); err != nil {
		return nil, err
	}
	defer r.reader.close()
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // the tables are large and hold no pointers: to collect often costs little
	if err := r.reader.read(ctx, r.took, r.decide); err != nil {
		return nil, err
	}
	if r.printErr != nil {
		return nil, r.printErr
	}
	var useless []error
	for _, s := range r.reader.sources {
		useless = append(useless, s.useless())
	}
	if err := errors.Join(useless...); err != nil {
		return nil, err
	}
	r.finish()
	return r.report, nil
}

// took counts the lines of a batch that was read, before its requests are decided. Some may be ahead.
func (r *run) took(b *batch, ahead []lineTime) {
	r.report.add(&b.Counts)
	r.report.ahead.add(b.log, ahead...)
	now := time.Now()
	if r.opts.Progress == nil || now.Sub(r.shownAt) < 200*time.Millisecond {
		return
	}
	r.shownAt = now
	p := Progress{Lines: r.report.Lines, Elapsed: now.Sub(r.began)}
	for _, s := range r.reader.sources {
		p.Read += s.log.Progress()
		p.Size += s.log.Size
	}
	r.opts.Progress(p)
}

// decide decides a request.
func (r *run) decide(b *batch, ev *event) {
	if ev.at < r.clock {
		r.report.late.add(b.log, b.times[ev.index])
	}
	r.clock = max(r.clock, ev.at)
	if r.report.First.IsZero() {
		r.report.First = time.UnixMicro(r.clock).UTC()
	}
	deniedBy := r.engine.decide(&ev.now, r.clock, ev.duration)
	if deniedBy != nil && r.opts.Denied != nil && r.printErr == nil {
		_, r.printErr = fmt.Fprintf(r.opts.Denied, "%s:%d\t%s\t%s\t%s\n", plainName(b.log), b.times[ev.index].line,
			ruleName(deniedBy.of), deniedBy.of.limit.Rate(), clientName(deniedBy.Key))
	}
	if r.old == nil {
		return
	}
	wasBy := r.old.decide(&ev.old, r.clock, ev.duration)
	r.nowOnly.add(&ev.now, deniedBy, wasBy)
	r.wereOnly.add(&ev.old, wasBy, deniedBy)
}
