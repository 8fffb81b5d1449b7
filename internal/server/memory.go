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
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"weir/internal/limiter/memory"
)

// limitMemory sets the runtime's memory limit to 85 % of the container's, unless GOMEMLIMIT
// is set or the container has no limit. The rest is for memory that the runtime does not count, and
// for collections that come late on a busy machine.
func limitMemory(logger *slog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(0.85), memlimit.WithProvider(memlimit.FromCgroup))
	switch {
	case err != nil:
		logger.Debug("the container's memory limit is unknown", "err", err)
	case limit < math.MaxInt64:
		logger.Info("using the container's memory limit", "runtime_bytes", limit)
	}
}

// Counters may use the runtime's memory limit minus otherMemory bytes, but there may always be
// leastCounters. A counter takes about counterMemory bytes, so a container of 256 MiB keeps a million.
const (
	otherMemory   = 64 << 20
	counterMemory = 160
	leastCounters = 100_000
)

// maxCounters returns the number of counters that fit in the runtime's memory limit, which limitMemory
// or GOMEMLIMIT has set, or the default if there is no limit.
func maxCounters() int {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return memory.DefaultMaxCounters
	}
	return int(max((limit-otherMemory)/counterMemory, leastCounters))
}

// affordable returns the number of objects of size bytes that fit in the runtime's memory limit, but
// no more than bound.
func affordable(bound int, size int64) int {
	return int(min(int64(bound), debug.SetMemoryLimit(-1)/size))
}

// garbage and loadGarbage are the bytes of garbage that may accumulate between two collections, normally
// and during a load of rules. A quarter of the live bytes is always allowed. By default, the runtime
// allows as much garbage as there are live bytes. A server with few live bytes would then collect very
// often, which takes a sixth of the CPU time of a decision. A load of 100,000 rules makes 360 MB of
// garbage, and each collection during the load keeps all processors busy with the old and the new rules.
const garbage, loadGarbage = 56 << 20, 224 << 20

// tuner sets the target of the garbage collector so that the allowed garbage may accumulate.
type tuner struct {
	loading atomic.Bool     // whether rules are loaded now
	scarce  chan<- struct{} // if not nil and not full, gets an element after each collection that finds memory scarce

	mu      sync.Mutex
	percent int // the current target
}

// load sets the target at the start of a load or, if begins is false, at its end.
func (t *tuner) load(begins bool) {
	t.loading.Store(begins)
	t.tune()
}

// tune sets the target as a share of the live bytes, unless GOGC is set. It returns the live bytes.
func (t *tuner) tune() (live uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	allowed := uint64(garbage)
	if t.loading.Load() {
		allowed = loadGarbage
	}
	live = read("/gc/heap/live:bytes") + read("/gc/scan/stack:bytes") + read("/gc/scan/globals:bytes")
	if percent := target(live, allowed); percent != t.percent && os.Getenv("GOGC") == "" { // setting it stops the world
		debug.SetGCPercent(percent)
		t.percent = percent
	}
	return live
}

// Memory is scarce if the live bytes exceed a quarter of the runtime's limit, or of enoughMemory if
// that is less. If the live bytes exceed the constant calm, run forces a collection when untilCollected
// has passed since the last, because after a peak there may be too little garbage to cause a
// collection. This interval doubles while the number of live bytes hardly changes.
const (
	enoughMemory   = 1 << 30
	calm           = 24 << 20
	untilCollected = 10 * time.Second
)

// run sets the target after each collection, which measures the live bytes, until ctx ends. If the
// live bytes grew tenfold, as under an attack, an old target would allow ten times the garbage.
func (t *tuner) run(ctx context.Context) {
	last, wait := uint64(0), untilCollected
	for {
		live := t.tune()
		if live > uint64(min(debug.SetMemoryLimit(-1), enoughMemory)/4) {
			select {
			case t.scarce <- struct{}{}:
			default: // scarce is full or nil
			}
		}
		if live > last*5/4 || live < last*3/4 {
			wait = untilCollected
		}
		collected := make(chan struct{}) // closed by the next collection, which frees the object below
		runtime.AddCleanup(new([16]byte), func(c chan struct{}) { close(c) }, collected)
		var late <-chan time.Time
		if max(live, last) > calm { // the runtime returns memory only after a second collection
			late = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-late:
			wait *= 2
			go runtime.GC()
			<-collected
		case <-collected:
		}
		last = live
	}
}

// target returns the value of GOGC at which allowed bytes of garbage may accumulate, in percent of
// the live bytes. It changes only by factors of two, and so changes rarely.
func target(live, allowed uint64) int {
	percent := 1600
	for percent > 25 && uint64(percent)*live > 100*allowed { // collecting counters in memory is cheap, so 25 is enough
		percent /= 2
	}
	return percent
}

// After a load of at least manyRules rules, the server forces collections, to return the load's
// memory to the system. With such a large heap, the next collection would come too late.
const manyRules = 10_000

// read returns a metric of the runtime.
func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
