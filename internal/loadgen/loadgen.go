// Package loadgen puts load on a server of Envoy's RateLimitService v3 and
// measures how it answers: in a closed loop, in which each caller sends its
// next request when the last one is answered, or in an open loop, which sends
// by a plan that waits for nobody. It knows nothing of how a server decides, so
// that any can be measured.
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what load to put on which servers.
type Options struct {
	Servers     []string // gRPC targets, such as host:port; connections are dealt out to them in turn
	Connections int      // 1 or more
	Callers     int      // requests that may wait for their answers at once, 1 or more
	// Rate is how many requests a second an open loop plans. 0 makes a closed loop.
	Rate     float64
	Duration time.Duration // how long requests are sent
	Warmup   time.Duration // of that, at the start, is not measured
	Requests int64         // at most so many are sent, 0: no bound but Duration
	Timeout  time.Duration // after which the client gives a request up, 0: never
	Traffic  Traffic
	PIDs     []int // local processes whose CPU time is measured
	// Progress, if it is not nil, is told once a second what has been done.
	Progress func(Progress)
}

// Progress is what a run has done so far, warm-up included.
type Progress struct {
	Elapsed, Duration        time.Duration
	Sent, Answered, Failures int64
}

// lastAnswers is how long after its end a run waits for answers.
const lastAnswers = 10 * time.Second

// run is one run of a load.
type run struct {
	opts  Options
	start time.Time // of the plan
	from  time.Time // requests due before are not measured

	reserved               atomic.Int64 // requests that may still be sent or have been
	sent, answered, failed atomic.Int64
	unsent                 int64 // planned requests that found no caller free until the end
}

// Run puts the load on the servers until its end, or that of ctx, which is no
// error. What is not answered then has lastAnswers left.
func Run(ctx context.Context, opts Options) (*Result, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	callers, err := newCallers(ctx, &opts)
	if err != nil {
		return nil, err
	}
	defer closeAll(callers)
	meter, err := newCPUMeter(opts.PIDs)
	if err != nil {
		return nil, err
	}

	r := &run{opts: opts, start: time.Now()}
	r.from = r.start.Add(opts.Warmup)
	sending, stop := context.WithDeadline(ctx, r.start.Add(opts.Duration))
	defer stop()
	answering, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	context.AfterFunc(sending, func() { time.AfterFunc(lastAnswers, giveUp) })

	var callersWork, others sync.WaitGroup
	next := r.nextNow(sending)
	if opts.Rate > 0 {
		plan := make(chan time.Time)
		others.Go(func() { r.plan(sending, plan) })
		next = func() (time.Time, bool) { due, ok := <-plan; return due, ok }
	}
	for _, c := range callers {
		callersWork.Go(func() { r.call(answering, c, next) })
	}
	done := make(chan struct{})
	others.Go(func() { r.watch(done) })
	others.Go(func() { meter.startAt(r.from, done) })
	callersWork.Wait()
	took := time.Since(r.from)
	close(done)
	others.Wait()
	return r.result(callers, meter, took)
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
		code, err := c.ask(ctx, r.opts.Timeout)
		answered := time.Now()
		if err == nil {
			r.answered.Add(1)
		} else {
			r.failed.Add(1)
			pause(ctx, time.Millisecond) // a server that refuses at once must not make the client spin
		}
		if !due.Before(r.from) {
			c.record(code, err, begun.Sub(due), answered.Sub(due))
		}
	}
}

// reserve tells whether one more request may be sent.
func (r *run) reserve() bool {
	return r.opts.Requests == 0 || r.reserved.Add(1) <= r.opts.Requests
}

// nextNow makes a closed loop: the next request is due as soon as a caller is free.
func (r *run) nextNow(ctx context.Context) func() (time.Time, bool) {
	return func() (time.Time, bool) {
		if ctx.Err() != nil || !r.reserve() {
			return time.Time{}, false
		}
		return time.Now(), true
	}
}

// plan makes an open loop: request n is due n/Rate seconds after the start,
// whatever became of those before it. One that finds no caller free waits for
// one, and what it waited counts as latency, so that a server that stalls
// cannot hide it.
func (r *run) plan(ctx context.Context, plan chan<- time.Time) {
	defer close(plan)
	// The thread sleeps by itself: the timers of the runtime are late by up to a millisecond.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	end := r.start.Add(r.opts.Duration)
	for n := 0; ; n++ {
		due := r.start.Add(time.Duration(float64(n) / r.opts.Rate * float64(time.Second)))
		if !due.Before(end) || !r.reserve() {
			return
		}
		sleepUntil(ctx, due)
		select {
		case plan <- due:
		case <-ctx.Done():
			r.unsent = r.planned() - int64(n)
			return
		}
	}
}

// planned is how many requests an open loop has planned by now.
func (r *run) planned() int64 {
	span := min(time.Since(r.start), r.opts.Duration)
	n := int64(math.Ceil(span.Seconds() * r.opts.Rate))
	if r.opts.Requests > 0 {
		n = min(n, r.opts.Requests)
	}
	return n
}

// watch tells of the progress once a second.
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

// check finds what is wrong with the options.
func (o *Options) check() error {
	switch {
	case len(o.Servers) == 0:
		return errors.New("no server is given")
	case o.Connections < len(o.Servers):
		return fmt.Errorf("%d connections do not reach %d servers, each needs one", o.Connections, len(o.Servers))
	case o.Callers < 1:
		return fmt.Errorf("%d callers can send nothing, allowed is 1 or more", o.Callers)
	case o.Rate < 0 || o.Rate > 1e7:
		return fmt.Errorf("a rate of %g is not allowed, allowed is up to 10000000 requests a second, or 0 for a closed loop", o.Rate)
	case o.Duration <= 0:
		return fmt.Errorf("a duration of %v is not allowed, allowed is more than 0", o.Duration)
	case o.Warmup < 0 || o.Warmup >= o.Duration:
		return fmt.Errorf("a warm-up of %v leaves nothing of %v to be measured", o.Warmup, o.Duration)
	case o.Requests < 0:
		return fmt.Errorf("%d requests are not allowed, allowed is 0 for any number, or more", o.Requests)
	}
	return o.Traffic.check()
}
