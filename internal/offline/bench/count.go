package bench

import (
	"fmt"
	"os"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/procfs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// counted is what all callers of a run have done.
type counted struct {
	from time.Time // requests due before are not measured

	mu                sync.Mutex
	all               Progress // warm-up included
	result            Result
	latency, lateness *hdr.Histogram
}

func newCounted(o *Options) counted {
	longest := o.Duration + lastAnswers
	return counted{latency: newHistogram(longest), lateness: newHistogram(longest), result: Result{Errors: map[string]int64{}}}
}

func (c *counted) countSent() {
	c.mu.Lock()
	c.all.Sent++
	c.mu.Unlock()
}

// count counts a request that was sent at begun and now has an answer or err.
func (c *counted) count(answer *ratelimitv3.RateLimitResponse, err error, due, begun time.Time) {
	now := time.Now()
	code := answer.GetOverallCode()
	if err == nil && code != ratelimitv3.RateLimitResponse_OK && code != ratelimitv3.RateLimitResponse_OVER_LIMIT {
		err = status.Errorf(codes.Unknown, "the answer has overall code %v", code)
	}
	limited := false
	for _, s := range answer.GetStatuses() {
		limited = limited || s.CurrentLimit != nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.all.Answered++
	} else {
		c.all.Failures++
	}
	if due.Before(c.from) {
		return
	}
	record(c.lateness, begun.Sub(due))
	record(c.latency, now.Sub(due))
	r := &c.result
	if err != nil {
		r.Failed++
		r.Errors[status.Code(err).String()]++
		r.LastError = err.Error()
		return
	}
	r.Answered++
	if !limited {
		r.NoLimit++
	}
	if code == ratelimitv3.RateLimitResponse_OVER_LIMIT {
		r.OverLimit++
	} else {
		r.OK++
	}
}

// countUnsent counts a planned request that was not sent until the end.
func (c *counted) countUnsent(due, end time.Time) {
	if due.Before(c.from) {
		return
	}
	record(c.lateness, end.Sub(due))
	record(c.latency, end.Sub(due))
	c.result.Unsent++
}

func (c *counted) progress(elapsed, duration time.Duration) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Elapsed, c.all.Duration = elapsed, duration
	return c.all
}

// reading is what has been done by a moment.
type reading struct {
	at       time.Time
	answered int64
	stats    []procfs.ProcStat // of each process
}

// findProcesses returns the processes and, if there are any, this one as the last.
func findProcesses(pids []int) (processes []procfs.Proc, err error) {
	if len(pids) == 0 {
		return nil, nil
	}
	for _, pid := range append(pids[:len(pids):len(pids)], os.Getpid()) {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return nil, fmt.Errorf("--pid: process %d: %w", pid, err)
		}
		processes = append(processes, p)
	}
	return processes, nil
}

func (c *counted) read(processes []procfs.Proc) (reading, error) {
	c.mu.Lock()
	r := reading{at: time.Now(), answered: c.all.Answered}
	c.mu.Unlock()
	for _, p := range processes {
		stat, err := p.Stat()
		if err != nil {
			return r, fmt.Errorf("process %d is gone: %w", p.PID, err)
		}
		r.stats = append(r.stats, stat)
	}
	return r, nil
}

// total returns the result, with the rate and the CPU times of an interval.
func (c *counted) total(o *Options, begun, ended reading) *Result {
	r := &c.result
	r.Options, r.SentWithWarmup = o.used(), c.all.Sent
	r.Seconds, r.Received = ended.at.Sub(begun.at).Seconds(), ended.answered-begun.answered
	r.PerSecond = ratio(float64(r.Received), r.Seconds)
	r.Latency, r.Lateness = latencies(c.latency), latencies(c.lateness)
	for i, stat := range ended.stats {
		seconds := stat.CPUTime() - begun.stats[i].CPUTime()
		r.Processes = append(r.Processes, Process{
			PID: stat.PID, Name: stat.Comm, Load: stat.PID == os.Getpid(),
			CPUPerRequest: ratio(seconds*1e6, float64(r.Received)),
			Cores:         ratio(seconds, r.Seconds),
			ResidentBytes: int64(stat.ResidentMemory()),
		})
	}
	return r
}

// ratio is 0 for parts of nothing.
func ratio(part, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return part / of
}
