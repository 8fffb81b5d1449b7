package bench

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A run waits for outstanding answers until lastAnswers after its duration, or afterInterruption after an interruption.
const (
	lastAnswers       = 10 * time.Second
	afterInterruption = time.Second
)

// run is the state of one call of Run.
type run struct {
	opts  Options
	start time.Time // start of the schedule
	// next holds the number of the next request. The caller that receives it waits
	// until that request is due; the others wait for the number.
	next  chan int64
	sleep func(ctx context.Context, until time.Time)
	end   func() // stops the measured interval when no request is left

	received          atomic.Int64 // answers so far, including the warm-up
	mu                sync.Mutex   // for the fields below
	result            Result
	latency, lateness *hdr.Histogram
}

// Run puts the load on the servers until the load is complete or ctx is done. Then it
// waits up to lastAnswers, or afterInterruption if ctx is done, for outstanding answers. It
// fails if a connection fails before the start, or if an option is invalid. The error
// about an option names its flag. It is not an error if ctx is done during the load.
func Run(ctx context.Context, opts Options) (*Result, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if opts.Requests > 0 {
		opts.Callers = int(min(int64(opts.Callers), opts.Requests)) // more callers would have nothing to send
	}
	opts.Connections = min(opts.Connections, opts.Callers)
	conns, err := connectAll(ctx, &opts)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	var clients []ratelimitv3.RateLimitServiceClient
	for _, conn := range conns {
		clients = append(clients, ratelimitv3.NewRateLimitServiceClient(conn))
	}
	return newRun(opts).measure(ctx, clients), nil
}

func newRun(opts Options) *run {
	histogram := func() *hdr.Histogram { // with three significant digits
		return hdr.New(1, (opts.Duration + lastAnswers).Microseconds(), 3)
	}
	r := &run{
		opts: opts, next: make(chan int64, 1), sleep: SleepUntil,
		result: Result{Options: opts.used(), Errors: map[string]int64{}}, latency: histogram(), lateness: histogram(),
	}
	r.next <- 0
	return r
}

// measure runs the callers and returns the result. PerSecond is the rate from
// the end of the warm-up until sending stops. It does not cover the wait for the last
// answers, during which the load is lower than requested.
func (r *run) measure(ctx context.Context, clients []ratelimitv3.RateLimitServiceClient) *Result {
	r.start = time.Now()
	sending, stop := context.WithDeadline(ctx, r.start.Add(r.opts.Duration))
	defer stop()
	load, end := context.WithCancel(sending) // done before the context sending if all requests are sent
	r.end = end
	answering, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	context.AfterFunc(sending, func() { time.AfterFunc(lastAnswers, giveUp) })
	defer context.AfterFunc(ctx, func() { time.AfterFunc(afterInterruption, giveUp) })()

	var callers sync.WaitGroup
	for i := range r.opts.Callers {
		client := clients[i%len(clients)]
		requests := r.opts.requests(uint64(i))
		callers.Go(func() {
			for sending.Err() == nil {
				due, ok := r.waitForNext(ctx)
				if !ok {
					return
				}
				r.ask(answering, client, requests(), due)
			}
		})
	}
	if r.opts.Progress != nil {
		callers.Go(func() {
			for load.Err() == nil {
				pause(load, 200*time.Millisecond)
				answers, most := r.received.Load(), cmp.Or(r.opts.Requests, math.MaxInt64)
				share := max(float64(time.Since(r.start))/float64(r.opts.Duration), float64(answers)/float64(most))
				r.opts.Progress(answers, min(share, 1))
			}
		})
	}
	begun, before := r.start, int64(0)
	if r.opts.Warmup > 0 {
		select {
		case <-time.After(r.opts.Warmup):
		case <-load.Done():
		}
		begun, before = time.Now(), r.received.Load()
	}
	<-load.Done()
	ended, after := time.Now(), r.received.Load()
	callers.Wait()
	for n := <-r.next; r.opts.Rate > 0; n++ {
		due, planned := r.due(n)
		if !planned || !due.Before(ended) {
			break
		}
		if r.record(due, ended, ended) {
			r.result.Unsent++
		}
	}
	result := &r.result
	result.Received, result.Seconds = after-before, ended.Sub(begun).Seconds()
	if result.Seconds > 0 {
		result.PerSecond = float64(result.Received) / result.Seconds
	}
	result.Latency, result.Lateness = latencies(r.latency), latencies(r.lateness)
	return result
}

// waitForNext waits until the next request is due, and returns its due time. It
// returns false if no request is left or after an interruption. In an open loop the
// due time does not depend on whether a caller is free, so a stalling server
// cannot hide its delay. A caller that wakes up after the end still sends a request
// that was due before the end, so a late timer loses no requests.
func (r *run) waitForNext(ctx context.Context) (due time.Time, ok bool) {
	n := <-r.next
	due, ok = r.due(n)
	if r.opts.Rate > 0 {
		r.sleep(ctx, due)
	}
	if !ok {
		r.end()
	}
	if ok = ok && ctx.Err() == nil; ok {
		n++
	}
	r.next <- n
	return due, ok
}

// due returns the time at which request n is to be sent: now in a closed loop, n/Rate
// seconds after the start in an open loop, but no later than the end of the schedule.
// planned reports whether request n is to be sent at all.
func (r *run) due(n int64) (due time.Time, planned bool) {
	planned = r.opts.Requests == 0 || n < r.opts.Requests
	if r.opts.Rate == 0 {
		return time.Now(), planned
	}
	after := min(float64(n)/r.opts.Rate*float64(time.Second), float64(r.opts.Duration))
	return r.start.Add(time.Duration(after)), planned && after < float64(r.opts.Duration)
}

// ask sends a request and counts its outcome.
func (r *run) ask(ctx context.Context, client ratelimitv3.RateLimitServiceClient, request *ratelimitv3.RateLimitRequest, due time.Time) {
	begun := time.Now()
	inTime, cancel := ctx, context.CancelFunc(func() {})
	if r.opts.Timeout > 0 {
		inTime, cancel = context.WithTimeout(ctx, r.opts.Timeout)
	}
	answer, err := client.ShouldRateLimit(inTime, request)
	cancel()
	r.count(answer, err, due, begun)
	if err != nil && r.opts.Rate == 0 {
		pause(ctx, time.Millisecond) // a server that refuses immediately must not make the client spin
	}
}

// count counts a request that has just returned answer or err. It was due at the time due, and sent at the time begun.
func (r *run) count(answer *ratelimitv3.RateLimitResponse, err error, due, begun time.Time) {
	now := time.Now()
	code := answer.GetOverallCode()
	if err == nil && code != ratelimitv3.RateLimitResponse_OK && code != ratelimitv3.RateLimitResponse_OVER_LIMIT {
		err = status.Errorf(codes.Unknown, "the answer has overall code %v", code)
	}
	hasLimit := func(s *ratelimitv3.RateLimitResponse_DescriptorStatus) bool { return s.CurrentLimit != nil }
	limited := slices.ContainsFunc(answer.GetStatuses(), hasLimit)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.SentWithWarmup++
	if err == nil {
		r.received.Add(1)
	}
	measured := r.record(due, begun, now)
	switch {
	case !measured:
		return
	case err != nil:
		r.result.Failed++
		r.result.Errors[status.Code(err).String()]++
		r.result.LastError = err.Error()
		return
	case code == ratelimitv3.RateLimitResponse_OVER_LIMIT:
		r.result.OverLimit++
	default:
		r.result.OK++
	}
	r.result.Answered++
	if !limited {
		r.result.NoLimit++
	}
}

// record adds the lateness and the latency of a request to the histograms. It returns
// false for a request of the warm-up, which is not measured.
func (r *run) record(due, begun, end time.Time) bool {
	if due.Before(r.start.Add(r.opts.Warmup)) {
		return false
	}
	most := r.latency.HighestTrackableValue()
	_ = r.lateness.RecordValue(min(begun.Sub(due).Microseconds(), most)) // fails only for a value out of range
	_ = r.latency.RecordValue(min(end.Sub(due).Microseconds(), most))
	return true
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
