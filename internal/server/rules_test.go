package server

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/descriptors"
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
	before := forcedCollections()
	start(t, "--config="+dir)
	testenv.Eventually(t, func() error {
		if forcedCollections() == before {
			return errors.New("the memory of the start is not given back")
		}
		return nil
	})
}

// forcedCollections is how many collections somebody asked for, as giving back
// memory does.
func forcedCollections() uint64 { return read("/gc/cycles/forced:gc-cycles") }

// TestLoadsAreRemembered loads well, badly again and again, and well.
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
	if got := r.lastLoads(); len(got) != mostLoads || got[0].Rules != 4 {
		t.Errorf("got %+v", got)
	}
}

// TestNoLoadIsLost loads for a caller that leaves, and reads again after a while what could
// not be read, though it looks the same.
func TestNoLoadIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := directory(t, limited(3))
		var log testenv.Log
		r := newRules(descriptors.Options{}, func() {}, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
		f := testenv.Must(openFiles(r, settings.Rules{RulesPath: settings.RulesPath{Config: dir}}))(t)
		look := func() { _ = f.load(f.look(), false) }

		write(t, filepath.Join(dir, "more.yaml"), "domain: more\n")
		look()
		if got := r.report().Domains; got != 2 {
			t.Errorf("%d domains, want those of the files", got)
		}

		remove(t, dir)
		for range 3 {
			look()
		}
		for _, want := range []float64{1, 2} {
			if got := testutil.ToFloat64(r.failure); got != want {
				t.Errorf("%v loads failed, want %v", got, want)
			}
			time.Sleep(retryEvery)
			look()
		}
		if n := strings.Count(log.String(), "new rules rejected"); n != 1 {
			t.Errorf("it is logged %d times:\n%s", n, log.String())
		}
	})
}
