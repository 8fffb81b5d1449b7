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

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/operators/console"
)

// source is where the rules come from. It checks what it finds, makes a tree of
// it and hands that to the rules; if anything is wrong, the old tree stays.
type source interface {
	// start finds the rules for the first time, if they are to be had at once.
	start() error
	// run hands over new rules until ctx ends.
	run(ctx context.Context)
	// reload loads the rules whether or not they have changed, unless ctx or run
	// ends first. Its error wraps operators.ErrInvalidRules if they were read but are
	// wrong, and holds the first problems.
	reload(ctx context.Context) error
	// report says what serves and what became of the last load.
	report() api.Rules
}

// rules are those that serve. Loading swaps one pointer.
type rules struct {
	options descriptors.Options
	loaded  func() // is called after every load that succeeds
	metrics *loadMetrics
	logger  *slog.Logger
	keep    func(iter.Seq[*limiter.Limit]) // is called with the limits of newer rules, if it is not nil

	tuner   *tuner // of the garbage of loads
	refusal string // that was logged last, "" since rules were accepted; of the goroutine that loads

	tree atomic.Pointer[descriptors.Tree]

	mu     sync.Mutex
	status api.Rules
	loads  []console.Load // the last ones, the newest first
}

func newRules(options descriptors.Options, loaded func(), logger *slog.Logger, reg prometheus.Registerer) *rules {
	return &rules{options: options, loaded: loaded, metrics: newLoadMetrics(reg), logger: logger}
}

// manyRules is from how many rules on the memory that a load took is given back
// to the system. The tree takes a fraction of it, and a heap as large as the load's
// peak would be collected too seldom to shrink by itself.
const manyRules = 10_000

// begin begins a load, which ctx ends, and returns its options. end must follow.
func (r *rules) begin(ctx context.Context) descriptors.Options {
	options := r.options
	options.Context = ctx
	if r.tree.Load() != nil {
		options.Pause = runtime.Gosched // on one processor, and requests first
		r.tuner.load(true)
	}
	return options
}

// accept lets new rules serve. status says where they come from, in how many
// files or resources, and of which version.
func (r *rules) accept(tree *descriptors.Tree, status api.Rules) {
	status.LoadedAt, status.Domains, status.Rules = time.Now().UTC(), tree.Domains(), tree.Rules()
	if r.keep != nil {
		r.keep(tree.Limits()) // before requests look up the series of new limits, which have to wait for it
	}
	r.tree.Store(tree)
	r.metrics.succeeded(status.LoadedAt)
	r.mu.Lock()
	r.status = status
	r.remember(console.Load{Rules: status.Rules, Version: status.Version})
	r.mu.Unlock()
	r.refusal = ""
	r.loaded()
}

// end ends a load and frees what a large one took. The next load begins after
// that, or its garbage would come on top. Only the first rules serve before.
func (r *rules) end() {
	if tree := r.tree.Load(); tree != nil && tree.Rules() >= manyRules {
		freeAfterLoad()
	}
	r.tuner.load(false)
}

// maxWarnings bounds how many warnings of a load the log shows.
const maxWarnings = 20

// warn logs what is hardly meant in new rules.
func (r *rules) warn(warnings descriptors.Problems) {
	for _, w := range warnings[:min(len(warnings), maxWarnings)] {
		r.logger.Warn("the rules may not do what you expect", "warning", w.String())
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		r.logger.Warn("the rules have more warnings; weir validate shows all", "more", more)
	}
}

// logRefusal logs why new rules do not serve, unless it has just done so: all who
// reach the debug listener can have them loaded again and again. args say which.
func (r *rules) logRefusal(err error, args ...any) {
	if err.Error() == r.refusal {
		return
	}
	r.refusal = err.Error()
	if r.tree.Load() == nil {
		r.logger.Error("new rules rejected; there are none yet, requests get UNAVAILABLE", args...)
	} else {
		r.logger.Error("new rules rejected; the old ones stay in use", args...)
	}
	r.logProblems(err)
}

// logProblems logs each problem of new rules in a record of its own, because a text
// of many lines is one long line in a log.
func (r *rules) logProblems(err error) {
	problems, ok := errors.AsType[descriptors.Problems](err)
	if !ok { // they could not be read
		problems = descriptors.Problems{{Message: err.Error()}}
	}
	for _, p := range problems {
		r.logger.Error("problem in the new rules", "problem", p.String())
	}
}

// refuse notes why new rules cannot serve. version is theirs, if they have one.
func (r *rules) refuse(err error, version string) {
	r.metrics.failed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.FailedAt, r.status.Problems = time.Now().UTC(), err.Error()
	r.status.FailedVersion = version
	r.remember(console.Load{Version: version, Problems: err.Error()})
}

// mostProblems is how many problems of rules are shown where people read and
// memory is kept: in log, status page and answers. weir validate lists them all.
const mostProblems = 100

// brief leaves out of an error what is too much to tell.
func brief(err error) error {
	if problems, ok := errors.AsType[descriptors.Problems](err); ok {
		return problems.First(mostProblems)
	}
	return err
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
	for line := range strings.Lines(status.Text(operators.Times{Now: time.Now().UTC()})) {
		if _, err := fmt.Fprintf(w, "# %s", line); err != nil {
			return err
		}
	}
	return tree.Dump(w)
}

// lastLoads returns what became of the last loads, the newest first.
func (r *rules) lastLoads() []console.Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.loads)
}

// mostLoads is how many loads are remembered.
const mostLoads = 10

// remember notes a load for the console. Those that fail alike again and again are one.
func (r *rules) remember(l console.Load) {
	l.At, l.Times = time.Now(), 1
	if len(r.loads) > 0 && l.Problems != "" && l.Problems == r.loads[0].Problems && l.Version == r.loads[0].Version {
		l.Times += r.loads[0].Times
		r.loads[0] = l
		return
	}
	r.loads = slices.Insert(r.loads, 0, l)[:min(len(r.loads)+1, mostLoads)]
}
