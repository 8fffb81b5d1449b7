//go:build !linux

package bench

import (
	"context"
	"time"
)

// SleepUntil waits until due or until ctx is done.
func SleepUntil(ctx context.Context, due time.Time) {
	if left := time.Until(due); left > 0 {
		pause(ctx, left)
	}
}
