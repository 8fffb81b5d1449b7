package app

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// How the garbage collector is tuned. A server of little memory collects very
// often by the runtime's default, which is to collect when as much garbage has
// piled up as is live: of the CPU time of a decision that was a sixth.
const (
	// garbage is what may pile up between two collections, or a quarter of what is
	// live, if that is more.
	garbage = 64 << 20
	// memoryShare is the part of the container's memory that the runtime keeps
	// within, by collecting more often; the rest is for what it does not count.
	memoryShare = 0.9
	// tuneInterval is how often the target follows what is live.
	tuneInterval = 5 * time.Second
)

// limitMemory makes the runtime keep within the memory of the container, if
// that has a limit and GOMEMLIMIT sets no other.
func limitMemory(logger *slog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	switch {
	case err != nil:
		logger.Debug("the memory limit of the container is not known", "err", err)
	case limit < math.MaxInt64:
		logger.Info("the container's memory is limited", "runtime_bytes", limit)
	}
}

// tuneCollector keeps the collector's target at the allowed garbage until ctx
// ends, unless GOGC sets it.
func tuneCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(tuneInterval)
	defer tick.Stop()
	for set := 0; ; {
		metrics.Read(live)
		if percent := collectorTarget(live[0].Value.Uint64()); percent != set {
			debug.SetGCPercent(percent)
			set = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// collectorTarget is the garbage that may pile up beside so many live bytes, in
// percent of these (see GOGC), in steps, since to set it stops the world.
func collectorTarget(live uint64) int {
	const most, least = 1600, 25 // counters in memory are no work for the collector
	percent := most
	for percent > least && uint64(percent)*live > 100*garbage {
		percent /= 2
	}
	return percent
}
