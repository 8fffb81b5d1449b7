package testenv

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	patience = time.Minute          // longer than any wait, even on a busy machine
	pause    = 2 * time.Millisecond // between two checks
)

// Eventually calls check until it returns nil. If that takes longer than a minute, it
// fails the test with the last error of check.
func Eventually(tb testing.TB, check func() error) {
	tb.Helper()
	look := time.NewTicker(pause)
	defer look.Stop()
	for end := time.Now().Add(patience); ; <-look.C {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("after %v: %v", patience, err)
		}
	}
}

// Pass lets time pass. It is for events that only time causes, such as the end of a
// window, and for the length of an attack. In all other cases, use Eventually, or wait
// for a channel with a deadline.
func Pass(d time.Duration) {
	<-time.After(d) //nolint:forbidigo // there is nothing else to wait for
}

// Running calls run in the background until stop is called. stop waits until run has returned.
func Running(run func(context.Context)) (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() { end(); running.Wait() }
}

// RaceDetector reports whether the test was built with -race. Then a sync.Pool drops
// items at random, so the number of allocations means nothing.
var RaceDetector = func() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// InProcessorTime runs f up to five times, and fails the test unless one run takes less
// CPU time than bound. Unlike real time, CPU time does not depend on other programs.
// Several runs are needed because the garbage collector may run during f. With the
// race detector, the bound is ten times as long.
func InProcessorTime(tb testing.TB, bound time.Duration, f func()) {
	tb.Helper()
	if RaceDetector {
		bound *= 10
	}
	var took time.Duration
	for range 5 {
		start := ProcessorTime(tb)
		f()
		if took = ProcessorTime(tb) - start; took < bound {
			return
		}
	}
	tb.Errorf("takes %v of a processor, want less than %v", took, bound)
}

// ProcessorTime returns the CPU time that this process has used so far.
func ProcessorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	OK(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// LiveHeap returns the size of the live heap in bytes.
func LiveHeap() int64 {
	runtime.GC()
	runtime.GC() // a second time, for pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Until is like Eventually, but waits until ok returns true. what describes that condition in the error.
func Until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	Eventually(tb, func() error {
		if !ok() {
			return fmt.Errorf("waited in vain until %s", what)
		}
		return nil
	})
}

// Becomes waits until get returns want. what describes the result of get in the error.
func Becomes[T comparable](tb testing.TB, what string, want T, get func() T) {
	tb.Helper()
	Eventually(tb, func() error {
		if got := get(); got != want {
			return fmt.Errorf("%s: %v, want %v", what, got, want)
		}
		return nil
	})
}
