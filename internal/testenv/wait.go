package testenv

import (
	"fmt"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"
)

const (
	patience = time.Minute          // with what is sure to come, on a machine that is busy
	pause    = 2 * time.Millisecond // between two looks
)

// Eventually asks check until it returns nil, for what others have to do first,
// and fails the test with its last error if that takes a minute.
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

// Pass lets so much time pass: for what only time brings about, such as the end of a
// window, and for how long an attack lasts. For all else, wait with Eventually, or for
// a channel beside a bound.
func Pass(d time.Duration) {
	<-time.After(d) //nolint:forbidigo // there is nothing else to wait for
}

// RaceDetector is whether the race detector is built in (-race). Then a sync.Pool loses
// what it is given, at random, so that allocations say nothing.
var RaceDetector = func() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

// InProcessorTime runs f, and fails the test if it never takes less than bound of the
// time of processors, which others on the machine do not take away; under the
// race detector ten times as much. It has five tries, because a collection of
// garbage may fall into any.
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

// ProcessorTime is what this process has taken of processors so far.
func ProcessorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Until is Eventually for what has no error to tell.
func Until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	Eventually(tb, func() error {
		if !ok() {
			return fmt.Errorf("waited in vain until %s", what)
		}
		return nil
	})
}

// Becomes waits until get returns want, with what as the name of its result.
func Becomes[T comparable](tb testing.TB, what string, want T, get func() T) {
	tb.Helper()
	Eventually(tb, func() error {
		if got := get(); got != want {
			return fmt.Errorf("%s: %v, want %v", what, got, want)
		}
		return nil
	})
}
