// Package simulate replays access logs against rules on a clock of their own: what would
// have been denied, to whom, and which amounts would have denied how many clients.
//
//	worker.go    lines -> hits: as Envoy's configuration and the rules say, by package plan
//	batch.go     batch: the hits of a block of lines in few bytes
//	merge.go     reader: blocks of all logs -> requests in the order of their times
//	order.go     clock: lines with a time that those around them do not have
//	decide.go    engine: requests -> decisions, by limiter.Count
//	table.go     table: the counters of a limit, in 10 bytes a client, 12 or 17 with demand
//	demand.go    demand: the amount that each client needs
//	worst.go     the clients that are denied most, and the worst minute
//	compare.go   difference: what one set of rules denies and another does not
//	simulate.go  Run: all of that
//	report.go    Report, as text in text.go and as HTML in html.go
//
// accesslog reads the lines, and limiter.Count decides: this package does neither, and knows
// no server and no store.
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
	Workers int               // 0: as many as there are processors
	// Progress, if it is not nil, is called now and then.
	Progress func(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	Lines      int64
	Read, Size int64 // bytes of the files; Size is 0 if it is not known
	Elapsed    time.Duration
}

// Remaining returns how long it will take at the pace so far, 0 if it is not known.
func (p Progress) Remaining() time.Duration {
	if p.Read == 0 || p.Size < p.Read {
		return 0
	}
	return time.Duration(float64(p.Elapsed) * float64(p.Size-p.Read) / float64(p.Read))
}

// run is one replay.
type run struct {
	opts     *Options
	reader   *reader
	engine   engine
	old      *engine // nil unless rules are compared
	report   *Report
	began    time.Time
	shownAt  time.Time
	clock    int64 // of the request decided last
	garbage  int   // see collect
	nowOnly  difference
	wereOnly difference
	printErr error
}

// Run replays the logs. The error is about a log that cannot be opened or has no line that
// can be read, or that of ctx.
func Run(ctx context.Context, opts Options) (*Report, error) {
	s := shared{opts: &opts, seed: maphash.MakeSeed(), rules: newRegistry(opts.Rules), headers: opts.Envoy.Headers(), needs: opts.Envoy.Needs()}
	r := &run{
		opts: &opts, report: newReport(&opts), began: time.Now(),
		engine: engine{limits: s.rules.limits, plan: opts.Plan, suggest: opts.Suggest},
	}
	if opts.Old != nil {
		s.oldRules = newRegistry(opts.Old)
		r.compareWith(s.oldRules.limits)
	}
	reader, err := newReader(s)
	if err != nil {
		return nil, err
	}
	defer reader.close()
	r.reader = reader
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	if err := reader.read(ctx, r.decide, r.took, r.report); err != nil {
		return nil, err
	}
	if r.printErr != nil {
		return nil, r.printErr
	}
	if err := r.report.nothing(); err != nil {
		return nil, err
	}
	r.finish()
	return r.report, nil
}

// nothing is the error of logs without a line that can be read, each of them.
func (p *Report) nothing() error {
	var list []error
	for _, s := range p.useless {
		list = append(list, s.useless())
	}
	return errors.Join(list...)
}

// took counts the lines of a batch that was read, before its requests are decided.
func (r *run) took(b *batch) {
	p := r.report
	p.Lines += b.lines
	p.Unreadable += b.bad
	p.Idle += b.idle
	p.Refused += b.refused
	p.endless += b.endless
	p.noRequest += b.noRequest
	if p.Refusal == "" {
		p.Refusal = b.refusal
	}
	for _, w := range b.wrong {
		if len(p.WrongLines) < maxShown {
			p.WrongLines = append(p.WrongLines, w)
		}
	}
	r.collect()
	r.progress()
}

// collect has garbage collected more often the more there is to keep: the tables hold no
// pointers, so that it takes little time.
func (r *run) collect() {
	clients := r.engine.known()
	if r.old != nil {
		clients += r.old.known()
	}
	percent := 100
	switch {
	case clients > 4_000_000:
		percent = 5
	case clients > 1_000_000:
		percent = 25
	}
	if percent != r.garbage {
		r.garbage = percent
		debug.SetGCPercent(percent)
	}
}

func (r *run) progress() {
	now := time.Now()
	if r.opts.Progress == nil || now.Sub(r.shownAt) < 200*time.Millisecond {
		return
	}
	r.shownAt = now
	p := Progress{Lines: r.report.Lines, Elapsed: now.Sub(r.began)}
	for _, s := range r.reader.sources {
		p.Read += s.log.Read()
		p.Size += s.log.Size
	}
	r.opts.Progress(p)
}

// decide decides a request.
func (r *run) decide(b *batch, ev *event) {
	at := ev.at
	if at < r.clock {
		at = r.clock
		r.report.late.add(b.log, []lineTime{{line: ev.line}})
	}
	r.clock = at
	p := r.report
	if p.First.IsZero() {
		p.First = time.UnixMicro(at).UTC()
	}
	hits := b.hits[ev.first:]
	begins, ends := hits[:ev.begin], hits[ev.begin:ev.begin+ev.end]
	denied := r.engine.decide(b, begins, ends, at, ev.duration)
	if denied && r.opts.Denied != nil {
		r.print(b, ev)
	}
	if r.old == nil {
		return
	}
	hits = hits[ev.begin+ev.end:]
	oldBegins := hits[:ev.oldBegin]
	was := r.old.decide(b, oldBegins, hits[ev.oldBegin:ev.oldBegin+ev.oldEnd], at, ev.duration)
	switch {
	case denied && !was:
		r.nowOnly.add(b)
	case was && !denied:
		r.wereOnly.add(b)
	}
	if was {
		r.nowOnly.otherwise(begins)
	}
	if denied {
		r.wereOnly.otherwise(oldBegins)
	}
}

// print writes a line about a request that is denied.
func (r *run) print(b *batch, ev *event) {
	by := r.engine.deniedBy
	_, err := fmt.Fprintf(r.opts.Denied, "%s:%d\t%s\t%s\t%s\n", plainName(b.log), ev.line, ruleName(by), by.limit.Rate(), clientName(b.key(r.engine.deniedHit)))
	if err != nil && r.printErr == nil {
		r.printErr = err
	}
}
