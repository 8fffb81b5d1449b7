package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// The tests of this file run on a clock of their own, so that times are exact
// whatever else the machine does.

// peer stands for a connection and the server behind it.
type peer struct {
	takes func(n int64) time.Duration // the answer to the n-th request, from 1; nil: a millisecond
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

// never answers.
func never(int64) time.Duration { return time.Hour }

// load is a load on p until ctx ends. change may change the run, or be nil.
func load(t *testing.T, ctx context.Context, opts Options, p *peer, change func(*run)) *Result { //nolint:revive // t first, as in all tests
	t.Helper()
	r := newRun(opts)
	r.sleep = func(ctx context.Context, until time.Time) { pause(ctx, time.Until(until)) }
	if change != nil {
		change(r)
	}
	result := r.measure(ctx, []ratelimitv3.RateLimitServiceClient{ratelimitv3.NewRateLimitServiceClient(p)})
	if got, want := r.latency.TotalCount(), result.Measured(); got != want {
		t.Errorf("%d latencies, want %d", got, want)
	}
	return result
}

// Whatever was due before the end is sent, or told not to have been.
func TestPlanIsKept(t *testing.T) {
	// late has the plan sleep from one time to another, both since its start.
	late := func(from, to time.Duration) func(*run) {
		return func(r *run) {
			exact := r.sleep
			r.sleep = func(ctx context.Context, until time.Time) {
				if slept := until.Sub(r.start); slept >= from && slept < to {
					ctx, until = context.WithoutCancel(ctx), r.start.Add(to)
				}
				exact(ctx, until)
			}
		}
	}
	tests := []struct {
		name         string
		callers      int
		takes        func(int64) time.Duration
		change       func(*run)
		interrupted  time.Duration // since the start, 0: never
		sent, unsent int64
	}{
		{name: "in time", callers: 4, sent: 200},
		{name: "late in between", callers: 1, change: late(100*time.Millisecond, 150*time.Millisecond), sent: 200},
		{name: "late at the end", callers: 8, change: late(389*time.Millisecond, 410*time.Millisecond), sent: 200},
		{name: "late at the end with too few callers", callers: 2, change: late(389*time.Millisecond, 410*time.Millisecond), sent: 197, unsent: 3},
		{name: "no answer", callers: 4, takes: never, sent: 4, unsent: 196},
		{name: "interrupted", callers: 4, interrupted: 99 * time.Millisecond, sent: 50},
		{name: "interrupted while it is late", callers: 8, change: late(89*time.Millisecond, 110*time.Millisecond), interrupted: 99 * time.Millisecond, sent: 45, unsent: 5},
		{name: "interrupted without an answer", callers: 4, takes: never, interrupted: 99 * time.Millisecond, sent: 4, unsent: 46},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := closed()
				opts.Rate, opts.Requests, opts.Duration, opts.Callers = 500, 0, 400*time.Millisecond, tt.callers
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				if tt.interrupted > 0 {
					time.AfterFunc(tt.interrupted, interrupt)
				}
				p := &peer{takes: tt.takes}
				result := load(t, ctx, opts, p, tt.change)
				if result.SentWithWarmup != tt.sent || result.Unsent != tt.unsent || p.asked.Load() != tt.sent {
					t.Errorf("%d sent, %d never sent, %d arrived, want %d and %d", result.SentWithWarmup, result.Unsent, p.asked.Load(), tt.sent, tt.unsent)
				}
			})
		})
	}
}

// TestStallCannotHide has a server that stalls once, for 300 ms. A closed loop
// of one caller would see one slow answer; the plan of the open loop has 300
// requests meanwhile, which all come late.
func TestStallCannotHide(t *testing.T) {
	const stall = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		p := &peer{takes: func(n int64) time.Duration {
			if n == 10 {
				return stall
			}
			return 50 * time.Microsecond
		}}
		opts := closed()
		opts.Rate, opts.Requests, opts.Callers, opts.Connections = 1000, 500, 1, 1
		result := load(t, t.Context(), opts, p, nil)
		if p50, most := result.Latency.P50, result.Latency.Max; p50 < 50_000 || most < stall.Microseconds() {
			t.Errorf("latency p50 %d µs, max %d µs, want half the requests late and one by %v", p50, most, stall)
		}
		if got := result.Lateness.Max; got < 298_000 || got > 300_000 {
			t.Errorf("sent late by %d µs at most, want about 299 ms", got)
		}
	})
}

func TestWarmupIsNotMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := closed()
		opts.Rate, opts.Requests, opts.Duration, opts.Warmup = 500, 0, 400*time.Millisecond, 200*time.Millisecond
		result := load(t, t.Context(), opts, new(peer), nil)
		if result.SentWithWarmup != 200 || result.Answered != 100 || result.Received != 100 || result.Seconds != 0.2 {
			t.Errorf("%d answers to %d requests, %d within %g s, want 100 to 200 within 0.2", result.Answered, result.SentWithWarmup, result.Received, result.Seconds)
		}
	})
}

// TestGivenUpIsSlow has a server that hangs soon after the start. Nothing that
// was planned from then on is answered, and all of it has to count as slow: what
// was given up, and what found no caller free.
func TestGivenUpIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{takes: func(n int64) time.Duration {
			if n >= 10 {
				return time.Hour
			}
			return time.Millisecond
		}}
		opts := closed()
		opts.Rate, opts.Requests, opts.Duration, opts.Timeout = 500, 0, 500*time.Millisecond, 100*time.Millisecond
		result := load(t, t.Context(), opts, p, nil)
		if result.Answered != 9 || result.Failed < 16 || result.Errors["DeadlineExceeded"] != result.Failed || result.Measured() != 250 {
			t.Errorf("%d answered, %d failed, %d never sent, want 9 and the rest of 250", result.Answered, result.Failed, result.Unsent)
		}
		if result.Latency.P50 < opts.Timeout.Microseconds() {
			t.Errorf("p50 %d µs, want half of all above %v", result.Latency.P50, opts.Timeout)
		}
		if result.Lateness.P50 < opts.Timeout.Microseconds() {
			t.Errorf("sent late by %d µs at p50, want more than %v", result.Lateness.P50, opts.Timeout)
		}
	})
}

// TestLastAnswersDoNotDilute has a server that answers the last requests late:
// that time does not belong to the load.
func TestLastAnswersDoNotDilute(t *testing.T) {
	const all, soon, late = 200, 150, 1500 * time.Millisecond
	tests := []struct {
		name     string
		change   func(*Options)
		seconds  float64 // at most
		received int64   // at least
	}{
		{"closed loop", func(*Options) {}, 0.004, soon - 32},
		{"open loop", func(o *Options) { o.Rate = 500 }, 0.4, soon - 1},
		{"by time", func(o *Options) { o.Rate, o.Requests, o.Duration = 500, 0, 400*time.Millisecond }, 0.4, soon - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &peer{takes: func(n int64) time.Duration {
					if n >= soon {
						return late
					}
					return time.Millisecond
				}}
				opts := closed()
				opts.Requests, opts.Callers = all, 64
				tt.change(&opts)
				begun := time.Now()
				result := load(t, t.Context(), opts, p, nil)
				if took := time.Since(begun); took < late || result.Answered != all {
					t.Errorf("%d answers after %v, want all %d", result.Answered, took, all)
				}
				if result.Seconds > tt.seconds || result.Received < tt.received || result.Received >= soon {
					t.Errorf("%d answers within %.3f s, want all but the last ones, without the wait", result.Received, result.Seconds)
				}
				if want := float64(result.Received) / result.Seconds; result.PerSecond != want {
					t.Errorf("%g answers a second, want %g", result.PerSecond, want)
				}
			})
		})
	}
}

// The rate of a plan is that of the plan: the last request has its time, too.
func TestEndOfAPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := closed()
		opts.Rate, opts.Requests = 50, 5
		if result := load(t, t.Context(), opts, new(peer), nil); result.Seconds != 0.1 || result.PerSecond != 50 || result.Received != 5 {
			t.Errorf("%d answers within %.3f s, %g/s, want 5 within 0.1", result.Received, result.Seconds, result.PerSecond)
		}
		opts.Rate, opts.Duration = 1e-300, 100*time.Millisecond // the second is due after more years than a Duration holds
		if result := load(t, t.Context(), opts, new(peer), nil); result.SentWithWarmup != 1 || result.Seconds != 0.1 {
			t.Errorf("%d requests within %.3f s, want 1 within 0.1", result.SentWithWarmup, result.Seconds)
		}
	})
}

// Answers are waited for after the end, but not long after an interruption.
func TestEndOfTheWait(t *testing.T) {
	tests := []struct {
		name               string
		takes              func(int64) time.Duration
		interrupted, ended time.Duration // since the start; interrupted 0: never
	}{
		{"a server that stalls", never, 0, time.Minute + lastAnswers},
		{"interrupted", nil, 300*time.Millisecond + 1, 301 * time.Millisecond},
		{"interrupted while the server stalls", never, 300 * time.Millisecond, 1300 * time.Millisecond},
		{"interrupted in the wait for the last answers", never, time.Minute + time.Second, time.Minute + 2*time.Second},
		{"interrupted at the end of that wait", never, time.Minute + 9500*time.Millisecond, time.Minute + lastAnswers},
	}
	for _, tt := range tests {
		for _, rate := range []float64{0, 1000} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opts := closed()
					opts.Rate, opts.Requests = rate, 0
					ctx, interrupt := context.WithCancel(t.Context())
					defer interrupt()
					if tt.interrupted > 0 {
						time.AfterFunc(tt.interrupted, interrupt)
					}
					begun := time.Now()
					result := load(t, ctx, opts, &peer{takes: tt.takes}, nil)
					if took := time.Since(begun); took != tt.ended {
						t.Errorf("rate %v: it ended after %v, want %v", rate, took, tt.ended)
					}
					if tt.takes == nil && (result.Failed != 0 || result.Unsent != 0 || result.Answered < 300) {
						t.Errorf("rate %v: got %+v, want answers only", rate, result)
					}
					if tt.takes != nil && result.Errors["Canceled"] != 4 {
						t.Errorf("rate %v: errors %v, want 4 requests given up", rate, result.Errors)
					}
				})
			})
		}
	}
}
