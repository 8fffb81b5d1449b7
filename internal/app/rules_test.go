package app

import (
	"fmt"
	"log/slog"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/admin"
	"weir/internal/descriptors"
)

// largeTree has as many rules as make a load a large one.
func largeTree(t *testing.T, opts descriptors.Options) *descriptors.Tree {
	t.Helper()
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	for i := range manyRules {
		fmt.Fprintf(&text, "- {key: user, value: user-%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	tree, err := descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(text.String())}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func quietRules() *rules {
	return newRules(descriptors.Options{}, func() {}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func TestMemoryOfALargeLoadIsGivenBack(t *testing.T) {
	tree := largeTree(t, descriptors.Options{})
	garbage := make([][]byte, 64)
	for i := range garbage {
		garbage[i] = make([]byte, 1<<20)
	}
	clear(garbage)
	quietRules().accept(tree, admin.Rules{})
	kept := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(kept)
	if mib := kept[0].Value.Uint64() >> 20; mib > 32 {
		t.Errorf("%d MiB are free and not given back", mib)
	}
}

func TestLoadRestsWhileRulesServe(t *testing.T) {
	r := quietRules()
	if r.loadOptions().Pause != nil {
		t.Error("the first load shall not rest")
	}
	r.tree.Store(new(descriptors.Tree))
	if r.loadOptions().Pause == nil {
		t.Error("a load shall rest while rules serve")
	}

	pauses := 0
	largeTree(t, descriptors.Options{Pause: func() { pauses++ }})
	if pauses < manyRules/100 {
		t.Errorf("%d pauses in a load of %d rules", pauses, manyRules)
	}
}

func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rest := rests()
		for _, step := range []struct{ work, want time.Duration }{
			{stretch / 2, 0},
			{stretch / 2, stretch}, // the second half
			{stretch / 4, 0},
			{3 * stretch, 3*stretch + stretch/4},
			{time.Second, longestRest}, // another process had the processor
		} {
			time.Sleep(step.work)
			start := time.Now()
			rest()
			if got := time.Since(start); got != step.want {
				t.Errorf("after %v more of work: rested %v, want %v", step.work, got, step.want)
			}
		}
	})
}
