//go:build !linux

package loadgen

import (
	"context"
	"time"
)

// sleepUntil waits until due or until ctx ends.
func sleepUntil(ctx context.Context, due time.Time) {
	if left := time.Until(due); left > 0 {
		pause(ctx, left)
	}
}
