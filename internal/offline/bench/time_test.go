package bench

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// The tests in this file use synctest's fake clock, so times are exact even on a busy machine.

// peer stands for a connection and the server behind it.
type peer struct {
	takes func(n int64) time.Duration // how long the n-th answer takes, counted from 1; nil means 1 ms for all
	asked atomic.Int64
}

func (p *peer) Invoke(ctx context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	n, took := p.asked.Add(1), time.Millisecond
	if p.takes != nil {
		took = p.takes(n)
	}
	pause(ctx, took)
	reply.(*ratelimitv3.RateLimitResponse).OverallCode = ratelimitv3.RateLimitResponse_OK
	return status.FromContextError(ctx.Err()).Err()
}

func (*peer) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	panic("nobody streams")
}

// slow returns a value for peer.takes: answers with numbers in the range take the time took, others 1 ms.
func slow(from, to int64, took time.Duration) func(int64) time.Duration {
	return func(n int64) time.Duration {
		if n >= from && n <= to {
			return took
		}
		return time.Millisecond
	}
}

func TestLoads(t *testing.T) {
	const ms, all = time.Millisecond, math.MaxInt64
	// timed and counted return options of open loops that end after a time or after a number of requests.
	timed := func(rate float64, duration time.Duration, callers int) Options {
		o := closed()
		o.Rate, o.Requests, o.Duration, o.Callers = rate, 0, duration, callers
		return o
	}
	counted := func(rate float64, requests int64, callers int) Options {
		o := timed(rate, time.Minute, callers)
		o.Requests = requests
		return o
	}
	warm, impatient, rare := timed(500, 400*ms, 4), timed(500, 500*ms, 4), timed(1e-300, 100*ms, 4)
	warm.Warmup, impatient.Timeout = 200*ms, 100*ms
	type check = func(r *Result, took time.Duration) bool
	// Every request that was due before the end is sent or counted as unsent.
	sent := func(n, unsent int64) check {
		return func(r *Result, _ time.Duration) bool { return r.SentWithWarmup == n && r.Unsent == unsent }
	}
	// The interval of the rate does not include the wait for the last answers.
	undiluted := func(seconds float64, received int64) check {
		return func(r *Result, took time.Duration) bool {
			return took >= 1500*ms && r.Answered == 200 && r.Seconds <= seconds && r.Received >= received && r.Received < 150 && r.PerSecond == float64(r.Received)/r.Seconds
		}
	}
	// The run waits for answers after the end, but only briefly after an interruption.
	waits := func(end time.Duration, lost int64) check {
		return func(r *Result, took time.Duration) bool {
			return took == end && r.Errors["Canceled"] == lost && (lost > 0 || r.Failed == 0 && r.Unsent == 0 && r.Answered >= 300)
		}
	}
	never := slow(1, all, time.Hour)
	for _, tt := range []struct {
		name        string
		opts        Options
		takes       func(int64) time.Duration // see peer
		late        [2]time.Duration          // the timer oversleeps between these two times since the start
		interrupted time.Duration             // since the start; 0 means never
		want        check
	}{
		{name: "in time", opts: timed(500, 400*ms, 4), want: sent(200, 0)},
		{name: "late in between", opts: timed(500, 400*ms, 1), late: [2]time.Duration{100 * ms, 150 * ms}, want: sent(200, 0)},
		{name: "late at the end", opts: timed(500, 400*ms, 8), late: [2]time.Duration{389 * ms, 410 * ms}, want: sent(200, 0)},
		{name: "late at the end with too few callers", opts: timed(500, 400*ms, 2), late: [2]time.Duration{389 * ms, 410 * ms}, want: sent(197, 3)},
		{name: "no answer", opts: timed(500, 400*ms, 4), takes: never, want: sent(4, 196)},
		{name: "interrupted", opts: timed(500, 400*ms, 4), interrupted: 99 * ms, want: sent(50, 0)},
		{name: "interrupted while it is late", opts: timed(500, 400*ms, 8), late: [2]time.Duration{89 * ms, 110 * ms}, interrupted: 99 * ms, want: sent(45, 5)},
		{name: "interrupted without an answer", opts: timed(500, 400*ms, 4), takes: never, interrupted: 99 * ms, want: sent(4, 46)},
		{name: "the warm-up is not measured", opts: warm, want: func(r *Result, _ time.Duration) bool {
			return r.SentWithWarmup == 200 && r.Answered == 100 && r.Received == 100 && r.Seconds == 0.2
		}},
		// A closed loop of one caller would see one slow answer of 300 ms. The schedule has 150 requests
		// in that time, which are all late.
		{name: "a stall cannot hide", opts: counted(500, 400, 1), takes: slow(10, 10, 300*ms), want: func(r *Result, _ time.Duration) bool {
			return r.Latency.P50 >= 50_000 && r.Latency.Max >= 300_000 && r.Lateness.Max >= 297_000 && r.Lateness.Max < 300_000
		}},
		// Requests that time out count as slow, as do requests that find no free caller.
		{name: "given up is slow", opts: impatient, takes: slow(10, all, time.Hour), want: func(r *Result, _ time.Duration) bool {
			return r.Answered == 9 && r.Failed >= 16 && r.Errors["DeadlineExceeded"] == r.Failed && r.Measured() == 250 && min(r.Latency.P50, r.Lateness.P50) >= 100_000
		}},
		{name: "last answers of a closed loop", opts: counted(0, 200, 64), takes: slow(150, all, 1500*ms), want: undiluted(0.004, 118)},
		{name: "last answers of an open loop", opts: counted(500, 200, 64), takes: slow(150, all, 1500*ms), want: undiluted(0.4, 149)},
		{name: "last answers of a time", opts: timed(500, 400*ms, 64), takes: slow(150, all, 1500*ms), want: undiluted(0.4, 149)},
		// The rate also includes the interval after the last request.
		{name: "end of a plan", opts: counted(50, 5, 4), want: func(r *Result, _ time.Duration) bool {
			return r.Seconds == 0.1 && r.PerSecond == 50 && r.Received == 5
		}},
		{name: "the second is due after more years than a Duration holds", opts: rare, want: func(r *Result, _ time.Duration) bool {
			return r.SentWithWarmup == 1 && r.Seconds == 0.1
		}},
		{name: "a server that stalls", opts: timed(1000, time.Minute, 4), takes: never, want: waits(time.Minute+lastAnswers, 4)},
		{name: "interrupted between answers", opts: timed(1000, time.Minute, 4), interrupted: 300*ms + 1, want: waits(301*ms, 0)},
		{name: "interrupted while the server stalls", opts: timed(1000, time.Minute, 4), takes: never, interrupted: 300 * ms, want: waits(1300*ms, 4)},
		{name: "interrupted in the wait for the last answers", opts: timed(1000, time.Minute, 4), takes: never, interrupted: 61_000 * ms, want: waits(62_000*ms, 4)},
		{name: "interrupted at the end of that wait", opts: timed(1000, time.Minute, 4), takes: never, interrupted: 69_500 * ms, want: waits(time.Minute+lastAnswers, 4)},
		{name: "a closed loop and a server that stalls", opts: timed(0, time.Minute, 4), takes: never, want: waits(time.Minute+lastAnswers, 4)},
		{name: "a closed loop interrupted", opts: timed(0, time.Minute, 4), interrupted: 300*ms + 1, want: waits(301*ms, 0)},
		{name: "a closed loop interrupted while the server stalls", opts: timed(0, time.Minute, 4), takes: never, interrupted: 300 * ms, want: waits(1300*ms, 4)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				if tt.interrupted > 0 {
					time.AfterFunc(tt.interrupted, interrupt)
				}
				p, r := &peer{takes: tt.takes}, newRun(tt.opts)
				r.sleep = func(ctx context.Context, until time.Time) {
					if slept := until.Sub(r.start); slept >= tt.late[0] && slept < tt.late[1] {
						ctx, until = context.WithoutCancel(ctx), r.start.Add(tt.late[1])
					}
					pause(ctx, time.Until(until))
				}
				begun := time.Now()
				result := r.measure(ctx, []ratelimitv3.RateLimitServiceClient{ratelimitv3.NewRateLimitServiceClient(p)})
				if took := time.Since(begun); !tt.want(result, took) {
					t.Errorf("after %v: got %+v", took, result)
				}
				if n := p.asked.Load(); n != result.SentWithWarmup || r.latency.TotalCount() != result.Measured() {
					t.Errorf("%d arrived of %d sent, %d latencies of %d", n, result.SentWithWarmup, r.latency.TotalCount(), result.Measured())
				}
			})
		})
	}
}
