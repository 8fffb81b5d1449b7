package app

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// How the garbage collector is tuned. A server of little memory collects very
// often by the runtime's default, which is to collect when as much garbage has
// piled up as is live: of the CPU time of a decision that was a sixth.
const (
	// garbage is what may pile up between two collections, or a quarter of what is
	// live, if that is more.
	garbage = 56 << 20
	// loadGarbage is what may pile up while new rules are loaded. A load leaves so much
	// behind that it would otherwise be collected ten times, each time by all processors.
	loadGarbage = 3 * garbage
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

// tuner keeps the collector's target at the garbage that is allowed. None
// leaves it as it is.
type tuner struct {
	mu      sync.Mutex
	garbage uint64 // allowed, in bytes
	percent int    // the target, 0: none was set yet
}

// newTuner returns none if GOGC sets the target.
func newTuner() *tuner {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return &tuner{garbage: garbage}
}

// run lets the target follow what is live until ctx ends.
func (t *tuner) run(ctx context.Context) {
	if t == nil {
		return
	}
	tick := time.NewTicker(tuneInterval)
	defer tick.Stop()
	for {
		t.mu.Lock()
		t.tune()
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// allow changes how much garbage may pile up, once a target is set.
func (t *tuner) allow(garbage uint64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.garbage = garbage
	if t.percent != 0 {
		t.tune()
	}
}

// tune sets the target if it is to change, since that stops the world.
func (t *tuner) tune() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := collectorTarget(live[0].Value.Uint64(), t.garbage); percent != t.percent {
		debug.SetGCPercent(percent)
		t.percent = percent
	}
}

// collectorTarget is the garbage that may pile up beside so many live bytes, in
// percent of these (see GOGC), in steps.
func collectorTarget(live, garbage uint64) int {
	const most, least = 1600, 25 // counters in memory are no work for the collector
	percent := most
	for percent > least && uint64(percent)*live > 100*garbage {
		percent /= 2
	}
	return percent
}
