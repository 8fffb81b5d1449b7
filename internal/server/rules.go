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

// source is the source of the rules.
type source interface {
	// run loads changed rules until ctx ends.
	run(ctx context.Context)
	// reload loads the rules even if they have not changed, and logs errors. If the rules are
	// invalid, the error wraps operators.ErrInvalidRules and contains the first problems.
	reload() error
	// report describes the rules in use and the outcome of the last load.
	report() api.Rules
}

// rules are the rules in use. A load swaps one pointer.
type rules struct {
	options descriptors.Options
	loaded  func() // called after every successful load
	logger  *slog.Logger
	keep    func(iter.Seq[*limiter.Limit]) // called with the limits of new rules before they are used
	tuner   tuner                          // allows more garbage during loads

	tree atomic.Pointer[descriptors.Tree]

	success, failure prometheus.Counter // numbers of loads
	good, successAt  prometheus.Gauge   // outcome of the last load, time of the last success

	mu     sync.Mutex
	status api.Rules
	loads  []console.Load // the last loads, newest first
}

// newRules returns rules without a tree, and registers the metrics of loads under names that
// dashboards for envoyproxy/ratelimit use.
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

// The log, the status page and responses show at most maxProblems problems of a load; weir validate lists
// all. The log shows at most maxWarnings warnings of a load. The console shows the last maxLoads loads.
const maxProblems, maxWarnings, maxLoads = 100, 20, 10

// load compiles new rules and puts them into use. If that fails or ctx ends, the old rules stay.
// The parameter from describes the source of the new rules. Only one load may run at a time.
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
		if r.status.RefusedSince.IsZero() {
			r.status.RefusedSince = time.Now().UTC()
		}
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
	from.InUseSince = from.LoadedAt
	if from.Hash == r.status.Hash {
		from.InUseSince = r.status.InUseSince
	}
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
		// Collect a second time: only then does the runtime learn how much memory it may keep. It
		// returns the rest in small steps. debug.FreeOSMemory would return it immediately, but block
		// a processor for tens of milliseconds.
		time.AfterFunc(0, runtime.GC)
		time.AfterFunc(15*time.Second, runtime.GC)
	}
	return nil
}

// logRefusal logs why new rules were rejected. Each problem is a separate record, because a log
// shows a text of several lines as one long line. args identify the rules.
func (r *rules) logRefusal(err error, args ...any) {
	if r.tree.Load() == nil {
		r.logger.Error("new rules rejected; there are none yet, requests get UNAVAILABLE", args...)
	} else {
		r.logger.Error("new rules rejected; the old ones stay in use", args...)
	}
	problems, ok := errors.AsType[descriptors.Problems](err)
	if !ok { // the files could not be read
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

// dump writes status as a comment, and then the rules in use.
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

// lastLoads returns the outcomes of the last loads, newest first.
func (r *rules) lastLoads() []console.Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.loads)
}

// remember records a load for the console. Consecutive failures with the same problems are one entry.
func (r *rules) remember(l console.Load) {
	l.At, l.Times = time.Now(), 1
	if len(r.loads) > 0 && l.Problems != "" && l.Problems == r.loads[0].Problems && l.Version == r.loads[0].Version {
		l.Times += r.loads[0].Times
		r.loads[0] = l
		return
	}
	r.loads = slices.Insert(r.loads, 0, l)[:min(len(r.loads)+1, maxLoads)]
}
