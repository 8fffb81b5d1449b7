package main

import (
	"context"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Go wakes another processor for almost every message. While one processor can carry the load, this
// costs a fifth of the CPU time of a decision and makes no answer faster. So fitProcessors checks the
// load in intervals of length look. It doubles GOMAXPROCS if the processors were busier than busyShare.
// It halves GOMAXPROCS after calmLooks intervals in which half as many would have been less busy than that.
const (
	look      = 100 * time.Millisecond
	busyShare = 0.6
	calmLooks = 20
)

// fitProcessors fits GOMAXPROCS to the load until ctx ends, unless the environment variable
// GOMAXPROCS is set. The value is at least 1 and at most the runtime's default, which depends on the
// machine and the container's CPU limit.
func fitProcessors(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	most, n, calm := runtime.GOMAXPROCS(0), 1, 0
	runtime.GOMAXPROCS(n)
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for at, used := time.Now(), usedCPU(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now, total := time.Now(), usedCPU()
		busy := (total - used).Seconds() / now.Sub(at).Seconds()
		at, used = now, total
		calm++
		fit := n
		switch {
		case busy > busyShare*float64(n):
			fit = min(2*n, most)
		case busy > busyShare*float64(n/2):
			calm = 0
		case calm >= calmLooks:
			fit = max(n/2, 1)
		}
		if fit != n {
			n, calm = fit, 0
			runtime.GOMAXPROCS(n) // stops the world for some microseconds
		}
	}
}

// usedCPU returns the CPU time that the process has used so far.
func usedCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
