package server

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"weir/internal/limiter/memory"
)

// How the garbage collector is tuned. A server of little memory collects very
// often by the runtime's default, which is to collect when as much garbage has
// piled up as is live: of the CPU time of a decision that was a sixth.
const (
	// garbage is what may pile up between two collections, or a quarter of what is
	// live, if that is more.
	garbage = 56 << 20
	// loadGarbage is what may pile up while new rules are loaded. A load of 100,000 leaves
	// 360 MB behind, and each collection on its way keeps all processors busy with the old
	// rules and the new; now there is one.
	loadGarbage = 4 * garbage
	// memoryShare is the part of the container's memory that the runtime keeps
	// within, by collecting more often; the rest is for what it does not count.
	memoryShare = 0.9
	// idleAfterLoad is how long after a load a server is idle that has not collected
	// since.
	idleAfterLoad = 15 * time.Second
)

// limitMemory makes the runtime keep within the memory of the container, if
// that has a limit and GOMEMLIMIT sets no other.
func limitMemory(logger *slog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	switch {
	case err != nil:
		logger.Debug("the container's memory limit is unknown", "err", err)
	case limit < math.MaxInt64:
		logger.Info("using the container's memory limit", "runtime_bytes", limit)
	}
}

// Of the memory that the runtime may use, counters get what else leaves, and each takes
// about so much with its key. So a container of 256 MiB keeps a million.
const (
	memoryElse    = 64 << 20
	counterMemory = 160
	leastCounters = 100_000
)

// maxCounters is how many counters the memory store keeps: as many as the runtime's limit,
// which limitMemory or GOMEMLIMIT has set, has room for.
func maxCounters() int {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return memory.DefaultMaxCounters
	}
	return int(max((limit-memoryElse)/counterMemory, leastCounters))
}

// tuner keeps the collector's target at the garbage that is allowed. None
// leaves it as it is.
type tuner struct {
	mu      sync.Mutex
	loading bool
	percent int // the target, 0: none was set yet
}

// newTuner returns none if GOGC sets the target.
func newTuner() *tuner {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return &tuner{}
}

// run lets the target follow what is live, which each collection finds out, until
// ctx ends. The target is a share of it: what grows to the tenfold, as under an
// attack, may pile up ten times the garbage until the target is another.
func (t *tuner) run(ctx context.Context) {
	if t == nil {
		return
	}
	collected := make(chan struct{}, 1)
	for {
		t.mu.Lock()
		t.tune()
		t.mu.Unlock()
		notifyCollection(collected)
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
	}
}

// notifyCollection tells c of the next collection, which finds an object that
// nobody refers to.
func notifyCollection(c chan<- struct{}) {
	runtime.AddCleanup(new([16]byte), func(c chan<- struct{}) { c <- struct{}{} }, c)
}

// load says that a load begins, or that it has ended.
func (t *tuner) load(begins bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loading = begins
	if t.percent != 0 {
		t.tune()
	}
}

// tune sets the target if it is to change, since that stops the world.
func (t *tuner) tune() {
	target := usualTarget
	if t.loading {
		target = loadTarget
	}
	live := read("/gc/heap/live:bytes") + read("/gc/scan/stack:bytes") + read("/gc/scan/globals:bytes")
	if percent := target(live); percent != t.percent {
		debug.SetGCPercent(percent)
		t.percent = percent
	}
}

// The least and the most garbage that may pile up, in percent of what is live.
const leastTarget, mostTarget = 25, 1600 // counters in memory are no work for the collector

// usualTarget is the garbage that may pile up beside so many live bytes, in
// percent of these (see GOGC), in steps, so that it seldom changes.
func usualTarget(live uint64) int {
	percent := mostTarget
	for percent > leastTarget && uint64(percent)*live > 100*garbage {
		percent /= 2
	}
	return percent
}

// loadTarget is the target while rules are loaded. Steps would make for one
// collection more.
func loadTarget(live uint64) int {
	return int(min(max(100*loadGarbage/max(live, 1), leastTarget), mostTarget))
}

// freeAfterLoad frees what a load took. The runtime then returns the memory little by
// little: to return it at once, by debug.FreeOSMemory, keeps a processor from all
// else for tens of milliseconds, and the next load takes it again. How much it
// may keep the runtime only sees at the collection after this one, which an idle
// server makes here.
func freeAfterLoad() {
	runtime.GC()
	cycles := collections()
	time.AfterFunc(idleAfterLoad, func() {
		if collections() == cycles {
			runtime.GC()
		}
	})
}

// collections is how many there have been.
func collections() uint64 { return read("/gc/cycles/total:gc-cycles") }

// read reads a metric of the runtime.
func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
