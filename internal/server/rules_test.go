package server

import (
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators/console"
	"weir/internal/settings"
	"weir/internal/testenv"
)

func TestMemoryOfALargeLoadIsGivenBack(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	for i := range manyRules {
		fmt.Fprintf(&text, "- {key: user, value: user-%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	dir := directory(t, text.String())
	const forced = "/gc/cycles/forced:gc-cycles" // collections by runtime.GC
	before := read(forced)
	start(t, "--config="+dir)
	testenv.Until(t, "the memory of the start is given back", func() bool { return read(forced) > before })
}

// TestLoadsAreRemembered records a success, five equal failures, which are one entry, and another
// failure; then more loads than are kept.
func TestLoadsAreRemembered(t *testing.T) {
	r := new(rules)
	r.remember(console.Load{Rules: 3})
	for range 5 {
		r.remember(console.Load{Problems: "a.yaml:1:1: bad"})
	}
	r.remember(console.Load{Problems: "a.yaml:2:1: bad"})
	if got := r.lastLoads(); len(got) != 3 || got[0].Times != 1 || got[1].Times != 5 || got[2].Rules != 3 {
		t.Errorf("got %+v", got)
	}
	for range 30 {
		r.remember(console.Load{Rules: 4})
	}
	if got := r.lastLoads(); len(got) != maxLoads || got[0].Rules != 4 {
		t.Errorf("got %+v", got)
	}
}

// TestNoLoadIsLost adds a file, and then removes all. A failed load is tried again after a while, even
// if the files look the same.
func TestNoLoadIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := directory(t, limited(3))
		var log testenv.Log
		r := newRules(descriptors.Options{}, func(iter.Seq[*limiter.Limit]) {}, func() {}, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
		f := testenv.Must(openFiles(r, settings.Rules{RulesPath: settings.RulesPath{Config: dir}}))(t)
		look := func() { _ = f.load(f.look(), false) }

		write(t, filepath.Join(dir, "more.yaml"), "domain: more\n")
		look()
		testenv.Equal(t, r.report().Domains, 2, "domains of the files")

		testenv.OK(t, os.RemoveAll(dir))
		for range 3 {
			look()
		}
		for _, want := range []float64{1, 2} {
			testenv.Equal(t, testutil.ToFloat64(r.failure), want, "failed loads")
			time.Sleep(retryEvery)
			look()
		}
		testenv.Equal(t, strings.Count(log.String(), "new rules rejected"), 1, "times that it is logged in\n%s", log.String())
	})
}

// TestReloadsShareALoad calls reload 200 times during a load, after a change that this load does not
// see.
func TestReloadsShareALoad(t *testing.T) {
	dir, loads, gate := directory(t, limited(3)), atomic.Int64{}, make(chan bool)
	loaded := func() {
		if loads.Add(1) == 2 { // the first was at the start
			<-gate
			<-gate
		}
	}
	r := newRules(descriptors.Options{}, func(iter.Seq[*limiter.Limit]) {}, loaded, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	f := testenv.Must(openFiles(r, settings.Rules{RulesPath: settings.RulesPath{Config: dir}}))(t)
	var running sync.WaitGroup
	var asked atomic.Int64
	reload := func() {
		asked.Add(1)
		if err := f.reload(); err != nil {
			t.Error(err)
		}
	}
	running.Go(reload)
	gate <- true
	write(t, filepath.Join(dir, "more.yaml"), "domain: more\n")
	for range 200 {
		running.Go(reload)
	}
	testenv.Becomes(t, "callers", 201, asked.Load)
	gate <- true
	running.Wait()
	if n, domains := loads.Load(), r.report().Domains; n < 3 || n > 20 || domains != 2 {
		t.Errorf("%d loads, of %d domains at last, want 3 or some more, of 2", n, domains)
	}
}

// TestIdleWatchIsCheap measures the CPU time of a server that watches 10,000 files.
func TestIdleWatchIsCheap(t *testing.T) {
	dir := directory(t, limited(3))
	for i := range 10_000 {
		write(t, fmt.Sprintf("%s/%d.yaml", dir, i), fmt.Sprintf("domain: d%d\n", i))
	}
	f := start(t, "--config="+dir)
	f.wantLimit(3)
	const idle = 3 * time.Second
	before := testenv.ProcessorTime(t)
	testenv.Pass(idle)
	if used := testenv.ProcessorTime(t) - before; used > idle/12 && !testenv.RaceDetector {
		t.Errorf("%v of a processor in %v", used, idle)
	}
	replace(t, dir+"/rules.yaml", limited(7))
	f.wantLimit(7)
}

func TestTargets(t *testing.T) {
	for live, want := range map[uint64][2]int{ // percent, normally and during a load
		0: {1600, 1600}, 3 << 20: {1600, 1600}, // 48 MiB of garbage
		5 << 20:  {800, 1600}, // 40, and 80 MiB
		27 << 20: {200, 800}, 40 << 20: {100, 400}, 100 << 20: {50, 200}, 10 << 30: {25, 25},
	} {
		testenv.Equal(t, [2]int{target(live, garbage), target(live, loadGarbage)}, want, "%d MiB live: percent", live>>20)
	}
}

func TestCountersFitIntoTheMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int{math.MaxInt64: 1_000_000, 230 << 20: 1_087_897, 1 << 30: 6_291_456, 32 << 20: 100_000} {
		debug.SetMemoryLimit(limit)
		testenv.Equal(t, maxCounters(), want, "%d MiB: counters", limit>>20)
	}
}

// TestCollectorIsTunedUnlessToldOtherwise reads the target of the garbage collector: GOGC if it is
// set, otherwise a target that is higher during a load.
func TestCollectorIsTunedUnlessToldOtherwise(t *testing.T) {
	live := make([]byte, 40<<20)
	defer runtime.KeepAlive(live)
	runtime.GC() // counts it as live
	for _, gogc := range []string{"77", ""} {
		t.Setenv("GOGC", gogc)
		before := debug.SetGCPercent(77)
		defer debug.SetGCPercent(before)
		f := start(t, "--config="+directory(t, limited(3)))
		percent := func() uint64 { return read("/gc/gogc:percent") }
		if gogc != "" {
			f.source.(*files).tuner.load(true)
			testenv.Equal(t, percent(), 77, "the percentage, which GOGC says")
			f.stop() // stops the tuner
			testenv.OK(t, f.wantEnd())
			continue
		}
		usual := uint64(0)
		testenv.Until(t, "the target is set", func() bool { usual = percent(); return usual != 77 })
		f.source.(*files).tuner.load(true)
		testenv.Until(t, "the target grows", func() bool { return percent() > usual })
		f.source.(*files).tuner.load(false)
		testenv.Until(t, "the target is as it was", func() bool { return percent() == usual })
	}
}
