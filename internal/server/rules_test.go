package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/testenv"
)

func quietRules() *rules {
	return newRules(descriptors.Options{}, func() {}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func TestMemoryOfALargeLoadIsGivenBack(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	for i := range manyRules {
		fmt.Fprintf(&text, "- {key: user, value: user-%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	dir := directory(t, text.String())
	before := forcedCollections()
	f := start(t, "--config="+dir)
	testenv.Eventually(t, func() error {
		if forcedCollections() == before {
			return errors.New("the memory of the start is not given back")
		}
		return nil
	})

	before = forcedCollections()
	f.wantAnswer("POST", f.DebugAddr(), "/-/reload", 200)
	if forcedCollections() == before {
		t.Error("the memory of a reload is not given back before the next may begin")
	}
}

// forcedCollections is how many collections somebody asked for, as giving back
// memory does.
func forcedCollections() uint64 { return read("/gc/cycles/forced:gc-cycles") }

func TestLoadGivesWayWhileRulesServe(t *testing.T) {
	r := quietRules()
	if r.begin(t.Context()).Pause != nil {
		t.Error("the first load shall take all processors")
	}
	r.tree.Store(new(descriptors.Tree))
	if r.begin(t.Context()).Pause == nil {
		t.Error("a load shall give way while rules serve")
	}
}

func TestALoadMayLeaveMoreGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	live := make([]byte, 40<<20)
	defer runtime.KeepAlive(live)
	runtime.GC() // which counts it as live
	c := newTuner()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.run(ctx) // sets the usual target
	r := quietRules()
	r.tuner = c
	r.tree.Store(new(descriptors.Tree))
	usual := c.percent
	r.begin(t.Context())
	during := c.percent
	r.end()
	if during <= usual || c.percent != usual {
		t.Errorf("the target is %d %%, during a load %d %%, then %d %%", usual, during, c.percent)
	}
}
