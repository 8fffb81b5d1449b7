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
// It halves GOMAXPROCS after calmLooks consecutive intervals in which half the processors would have been enough.
const (
	look      = 100 * time.Millisecond
	busyShare = 0.6
	calmLooks = 20
)

// fitProcessors fits GOMAXPROCS to the load until ctx is done, unless the environment variable
// GOMAXPROCS is set. The value is at least 1 and at most the runtime's default, which depends on the
// machine and the container's CPU limit.
func fitProcessors(ctx context.Context) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	f := fit{most: runtime.GOMAXPROCS(0), n: 1}
	runtime.GOMAXPROCS(f.n)
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for at, used := time.Now(), usedCPU(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now, total := time.Now(), usedCPU()
		before := f.n
		f.next((total - used).Seconds() / now.Sub(at).Seconds())
		at, used = now, total
		if f.n != before {
			runtime.GOMAXPROCS(f.n) // stops the world for a few microseconds
		}
	}
}

// fit holds n, the value of GOMAXPROCS, from 1 to most. calm is the number of consecutive intervals in
// which half of the processors would have been enough.
type fit struct{ most, n, calm int }

// next sets n after an interval. busy is the average number of processors in use in the interval.
func (f *fit) next(busy float64) {
	f.calm++
	switch {
	case busy > busyShare*float64(f.n):
		f.n, f.calm = min(2*f.n, f.most), 0
	case busy > busyShare*float64(f.n/2):
		f.calm = 0
	case f.calm >= calmLooks:
		f.n, f.calm = max(f.n/2, 1), 0
	}
}

// usedCPU returns the CPU time that the process has used so far.
func usedCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
