package bench

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// SleepUntil waits until due, accurate to tens of microseconds, or until ctx is
// done, which it notices within 10 ms. It blocks the caller's thread.
func SleepUntil(ctx context.Context, due time.Time) {
	for {
		left := min(time.Until(due), 10*time.Millisecond)
		if left <= 0 || ctx.Err() != nil {
			return
		}
		t := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&t, nil) // if a signal interrupts it, the loop continues
	}
}
