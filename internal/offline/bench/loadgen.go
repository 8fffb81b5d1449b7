// Package bench puts load on a server of Envoy's RateLimitService v3 and
// measures how it answers: in a closed loop, in which each caller sends its
// next request when the last one is answered, or in an open loop, which sends
// by a plan that waits for nobody. It knows nothing of how a server decides, so
// that any can be measured.
package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Progress is what a run has done so far, warm-up included.
type Progress struct {
	Elapsed, Duration        time.Duration
	Sent, Answered, Failures int64
}

// How long a run waits for answers: after its end, and after an interruption.
const (
	lastAnswers       = 10 * time.Second
	afterInterruption = time.Second
)

// run is one run of a load.
type run struct {
	opts  Options
	start time.Time // of the plan
	from  time.Time // requests due before are not measured
	// over ends the interval whose rate and CPU times are reported: from then on the
	// load is not the one that was asked for.
	over func()
	// ended says when the time to send was over, once it is.
	ended chan time.Time
	sleep func(ctx context.Context, until time.Time)

	reserved               atomic.Int64 // requests of a closed loop that may still be sent or have been
	sent, answered, failed atomic.Int64
	missed                 recorder // planned requests that found no caller free until the end
}

// Run puts the load on the servers until its end, or that of ctx, which is no
// error. What is not answered then has lastAnswers left, or afterInterruption.
// For an option that is not allowed the error is an *OptionError.
func Run(ctx context.Context, opts Options) (*Result, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if opts.Requests > 0 {
		opts.Callers = int(min(int64(opts.Callers), opts.Requests)) // others would have nothing to send
	}
	opts.Connections = min(opts.Connections, opts.Callers)
	conns, err := connectAll(ctx, &opts)
	defer closeAll(conns)
	if err != nil {
		return nil, err
	}
	return newRun(opts).measure(ctx, newCallers(&opts, conns))
}

func newRun(opts Options) *run {
	return &run{opts: opts, missed: newRecorder(opts.longest()), ended: make(chan time.Time, 1), sleep: SleepUntil}
}

// measure has the callers send, and returns what was measured.
func (r *run) measure(ctx context.Context, callers []*caller) (*Result, error) {
	meter, err := newMeter(r.opts.PIDs, &r.answered)
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	r.over = sync.OnceFunc(func() { close(over) })
	r.start = time.Now()
	r.from = r.start.Add(r.opts.Warmup)
	sending, stop := context.WithDeadline(ctx, r.start.Add(r.opts.Duration))
	defer stop()
	answering, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	context.AfterFunc(sending, func() {
		r.ended <- time.Now()
		r.over()
		time.AfterFunc(lastAnswers, giveUp)
	})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(afterInterruption, giveUp) })()

	var callersWork, others sync.WaitGroup
	next := r.nextNow(sending)
	if r.opts.Rate > 0 {
		plan := make(chan time.Time)
		others.Go(func() { r.plan(ctx, sending, plan) })
		next = func() (time.Time, bool) { due, ok := <-plan; return due, ok }
	}
	for _, c := range callers {
		callersWork.Go(func() { r.call(answering, c, next) })
	}
	done := make(chan struct{})
	others.Go(func() { r.watch(done) })
	others.Go(func() { meter.measure(r.from, over) })
	callersWork.Wait()
	close(done)
	others.Wait()
	return r.result(callers, meter)
}

// call sends what is due, one request after the other.
func (r *run) call(ctx context.Context, c *caller, next func() (due time.Time, ok bool)) {
	for {
		due, ok := next()
		if !ok {
			return
		}
		r.sent.Add(1)
		begun := time.Now()
		reply, err := c.ask(ctx, r.opts.Timeout)
		answered := time.Now()
		if err == nil {
			r.answered.Add(1)
		} else {
			r.failed.Add(1)
		}
		if !due.Before(r.from) {
			c.record(reply, err, begun.Sub(due), answered.Sub(due))
		}
		if err != nil && r.opts.Rate == 0 {
			pause(ctx, time.Millisecond) // a server that refuses at once must not make the client spin
		}
	}
}

// nextNow makes a closed loop: the next request is due as soon as a caller is
// free. The first that finds nothing left to send ends the interval, because
// from then on the load is not the one that was asked for.
func (r *run) nextNow(ctx context.Context) func() (time.Time, bool) {
	return func() (time.Time, bool) {
		switch {
		case ctx.Err() != nil:
			return time.Time{}, false
		case r.opts.Requests > 0 && r.reserved.Add(1) > r.opts.Requests:
			r.over()
			return time.Time{}, false
		}
		return time.Now(), true
	}
}

// plan makes an open loop, which sends each request when it is due, whatever
// became of those before it. One that finds no caller free waits for one, and
// what it waited counts as latency, so that a server that stalls cannot hide it.
// sending is ctx with the end of the plan: what was due before that is sent even
// after it if a caller is free, for a plan that wakes late must not lose
// requests. After an interruption nothing is.
func (r *run) plan(ctx, sending context.Context, plan chan<- time.Time) {
	defer r.over()
	defer close(plan)
	// The thread sleeps by itself: the timers of the runtime are late by up to a millisecond.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for n := int64(0); ; n++ {
		due, planned := r.due(n)
		r.sleep(ctx, due)
		if !planned {
			return
		}
		if ctx.Err() != nil {
			r.miss(n, <-r.ended)
			return
		}
		select {
		case plan <- due:
			continue
		default:
		}
		select {
		case plan <- due:
		case <-sending.Done():
			r.miss(n, <-r.ended)
			return
		}
	}
}

// due is when request n of an open loop is to be sent, n/Rate seconds after the
// start. If no such request is planned, it is the end of the plan.
func (r *run) due(n int64) (due time.Time, planned bool) {
	after := min(float64(n)/r.opts.Rate*float64(time.Second), float64(r.opts.Duration))
	planned = after < float64(r.opts.Duration) && (r.opts.Requests == 0 || n < r.opts.Requests)
	return r.start.Add(time.Duration(after)), planned
}

// miss records the requests from number n on that were due before the end, and
// will never be sent.
func (r *run) miss(n int64, end time.Time) {
	for {
		due, planned := r.due(n)
		if !planned || !due.Before(end) {
			return
		}
		if !due.Before(r.from) {
			r.missed.recordUnsent(end.Sub(due))
		}
		n++
	}
}

// watch reports the progress once a second.
func (r *run) watch(done <-chan struct{}) {
	if r.opts.Progress == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			r.opts.Progress(Progress{
				Elapsed: time.Since(r.start), Duration: r.opts.Duration,
				Sent: r.sent.Load(), Answered: r.answered.Load(), Failures: r.failed.Load(),
			})
		}
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
