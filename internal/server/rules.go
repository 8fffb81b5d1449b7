package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
)

// source is where the rules come from.
type source interface {
	// run loads new rules until ctx ends.
	run(ctx context.Context)
	// reload loads the rules whether or not they have changed, and logs why that fails. Its
	// error wraps operators.ErrInvalidRules if they were read but are wrong, and holds the
	// first problems.
	reload() error
	// report says what serves and what became of the last load.
	report() api.Rules
}

// rules are those that serve. Loading swaps one pointer.
type rules struct {
	options descriptors.Options
	loaded  func() // is called after every load that succeeds
	logger  *slog.Logger
	keep    func(iter.Seq[*limiter.Limit]) // is called with the limits of new rules before they serve
	tuner   tuner                          // of the garbage of loads

	tree atomic.Pointer[descriptors.Tree]

	success, failure prometheus.Counter // loads
	good, successAt  prometheus.Gauge   // of the last load

	mu     sync.Mutex
	status api.Rules
	loads  []console.Load // the last ones, the newest first
}

// newRules registers the metrics of loads, under the names that dashboards of
// envoyproxy/ratelimit know.
func newRules(options descriptors.Options, keep func(iter.Seq[*limiter.Limit]), loaded func(), logger *slog.Logger, reg prometheus.Registerer) *rules {
	auto := promauto.With(reg)
	return &rules{
		options: options, keep: keep, loaded: loaded, logger: logger,
		success: auto.NewCounter(prometheus.CounterOpts{
			Name: "ratelimit_service_config_load_success", Help: "Successful loads of the rules.",
		}),
		failure: auto.NewCounter(prometheus.CounterOpts{
			Name: "ratelimit_service_config_load_error", Help: "Failed loads of the rules. The previous rules stay in use.",
		}),
		good: auto.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_successful", Help: "1 if the last load of the rules succeeded, 0 if it failed or there was none.",
		}),
		successAt: auto.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_success_timestamp_seconds", Help: "Unix time of the last successful load of the rules, 0 before the first.",
		}),
	}
}

// maxProblems is how many problems of rules are shown where people read and
// memory is kept: in log, status page and answers. weir validate lists them all.
// maxWarnings bounds the warnings of a load in the log, and maxLoads the loads that the
// console shows.
const maxProblems, maxWarnings, maxLoads = 100, 20, 10

// load compiles new rules and lets them serve. If that fails, or ctx ends, the old ones
// stay. from says where the new ones come from. One load runs at a time.
func (r *rules) load(ctx context.Context, from api.Rules, compile func(descriptors.Options) (*descriptors.Tree, error)) error {
	options := r.options
	if r.tree.Load() != nil {
		options.Background = true
		r.tuner.load(true)
		defer r.tuner.load(false)
	}
	tree, err := compile(options)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if problems, ok := errors.AsType[descriptors.Problems](err); ok {
			err = problems.First(maxProblems)
		}
		r.failure.Inc()
		r.good.Set(0)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.status.FailedAt, r.status.Problems, r.status.FailedVersion = time.Now().UTC(), err.Error(), from.Version
		r.remember(console.Load{Version: from.Version, Problems: err.Error()})
		return err
	}
	from.LoadedAt, from.Domains, from.Rules = time.Now().UTC(), tree.Domains(), tree.Rules()
	r.keep(tree.Limits())
	r.tree.Store(tree)
	r.success.Inc()
	r.good.Set(1)
	r.successAt.Set(float64(from.LoadedAt.UnixMilli()) / 1e3)
	r.mu.Lock()
	r.status = from
	r.remember(console.Load{Rules: from.Rules, Version: from.Version})
	r.mu.Unlock()
	r.loaded()
	about := []any{"path", from.Path, "files", from.Files, "domains", from.Domains, "rules", from.Rules}
	if from.Version != "" {
		about = append(about, "version", from.Version)
	}
	r.logger.Info("rules loaded", about...)
	warnings := tree.Warnings()
	for _, w := range warnings[:min(len(warnings), maxWarnings)] {
		r.logger.Warn("the rules may not do what you expect", "warning", w.String())
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		r.logger.Warn("the rules have more warnings; weir validate shows all", "more", more)
	}
	if from.Rules >= manyRules {
		// The runtime then returns the memory little by little: to return it at once, by
		// debug.FreeOSMemory, keeps a processor from all else for tens of milliseconds. How much it
		// may keep it only sees at the collection after this one.
		time.AfterFunc(0, runtime.GC)
		time.AfterFunc(15*time.Second, runtime.GC)
	}
	return nil
}

// logRefusal logs why new rules do not serve, each problem in a record of its own, because
// a text of many lines is one long line in a log. args say which rules.
func (r *rules) logRefusal(err error, args ...any) {
	if r.tree.Load() == nil {
		r.logger.Error("new rules rejected; there are none yet, requests get UNAVAILABLE", args...)
	} else {
		r.logger.Error("new rules rejected; the old ones stay in use", args...)
	}
	problems, ok := errors.AsType[descriptors.Problems](err)
	if !ok { // they could not be read
		problems = descriptors.Problems{{Message: err.Error()}}
	}
	for _, p := range problems {
		r.logger.Error("problem in the new rules", "problem", p.String())
	}
}

func (r *rules) report() api.Rules {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// dump writes the rules that serve, below what is known of them.
func (r *rules) dump(w io.Writer, status api.Rules) error {
	tree := r.tree.Load()
	if tree == nil {
		return errors.New("no rules are loaded yet")
	}
	known := strings.TrimSuffix(status.Text(operators.Times{Now: time.Now().UTC()}), "\n")
	if _, err := fmt.Fprintf(w, "# %s\n", strings.ReplaceAll(known, "\n", "\n# ")); err != nil {
		return err
	}
	return tree.Dump(w)
}

// lastLoads returns what became of the last loads, the newest first.
func (r *rules) lastLoads() []console.Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.loads)
}

// remember notes a load for the console. Those that fail alike again and again are one.
func (r *rules) remember(l console.Load) {
	l.At, l.Times = time.Now(), 1
	if len(r.loads) > 0 && l.Problems != "" && l.Problems == r.loads[0].Problems && l.Version == r.loads[0].Version {
		l.Times += r.loads[0].Times
		r.loads[0] = l
		return
	}
	r.loads = slices.Insert(r.loads, 0, l)[:min(len(r.loads)+1, maxLoads)]
}
