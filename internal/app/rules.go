package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/admin"
	"weir/internal/descriptors"
	"weir/internal/settings"
)

// rules keeps the rules that serve. A load checks all files, compiles them to a
// new tree and swaps one pointer; if anything is wrong, the old tree stays.
type rules struct {
	path    string
	named   string // the settings that say so
	options descriptors.Options
	loaded  func() // told of every load that succeeds
	metrics *loadMetrics
	logger  *slog.Logger

	tree atomic.Pointer[descriptors.Tree]

	mu      sync.Mutex // one load at a time
	digest  [sha256.Size]byte
	skipped map[string]bool
	status  admin.Rules
}

func newRules(s settings.Rules, loaded func(), logger *slog.Logger, reg prometheus.Registerer) *rules {
	return &rules{
		path:    s.Path(),
		named:   s.Named(),
		options: descriptors.Options{MergeDomains: s.MergeDomainConfig},
		loaded:  loaded,
		metrics: newLoadMetrics(reg),
		logger:  logger,
		skipped: map[string]bool{},
		status:  admin.Rules{Path: s.Path()},
	}
}

// start loads the rules for the first time.
func (r *rules) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load(r.read())
}

// refresh loads the rules if they are not what the last load saw.
func (r *rules) refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.read(); c.digest != r.digest {
		_ = r.renew(c) // it has logged its error
	}
}

// reload loads the rules whether or not they have changed. Its error wraps
// admin.ErrInvalidRules if they were read but are wrong, and holds every problem.
func (r *rules) reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renew(r.read())
}

// renew loads rules in place of others, and logs what is wrong with them.
func (r *rules) renew(c content) error {
	err := r.load(c)
	if err != nil {
		r.logger.Error("new rules refused, the old ones go on serving", "path", r.path, "problems", err)
	}
	return err
}

// content is what was found at the path of the rules.
type content struct {
	files  []descriptors.File
	err    error
	digest [sha256.Size]byte
}

// read reads the files, and warns of those that it leaves out.
func (r *rules) read() content {
	files, skipped, err := descriptors.ReadFiles(r.path)
	if err == nil && len(files) == 0 {
		err = errors.New("reading rules: no file of rules there")
	}
	if err != nil {
		path, _ := filepath.Abs(r.path) // fails if there is no working directory
		err = fmt.Errorf("rules at %s (see %s): %w", path, r.named, err)
	}
	for _, name := range skipped {
		if !r.skipped[name] {
			r.skipped[name] = true
			r.logger.Warn("file skipped, its name is not that of a file of rules", "file", name)
		}
	}
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%q %d ", f.Name, len(f.Data))
		hash.Write(f.Data)
	}
	if err != nil {
		fmt.Fprint(hash, err)
	}
	return content{files, err, [sha256.Size]byte(hash.Sum(nil))}
}

// load compiles what was read and lets it serve, or notes why it cannot.
func (r *rules) load(c content) error {
	r.digest = c.digest
	tree, err := r.compile(c)
	if err != nil {
		r.metrics.failure.Inc()
		r.status.FailedAt, r.status.Problems = time.Now(), err.Error()
		return err
	}
	r.tree.Store(tree)
	r.metrics.success.Inc()
	r.status = admin.Rules{Path: r.path, LoadedAt: time.Now(), Files: len(c.files), Domains: tree.Domains(), Rules: tree.Rules()}
	r.logger.Info("rules loaded", "path", r.path, "files", len(c.files), "domains", tree.Domains(), "rules", tree.Rules())
	r.loaded()
	return nil
}

func (r *rules) compile(c content) (*descriptors.Tree, error) {
	if c.err != nil {
		return nil, c.err
	}
	tree, err := descriptors.Load(c.files, r.options)
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", admin.ErrInvalidRules, err)
	}
	return tree, nil
}

// report tells what serves and what became of the last load.
func (r *rules) report() admin.Rules {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// dump writes the rules that serve.
func (r *rules) dump(w io.Writer) error {
	tree := r.tree.Load()
	if tree == nil {
		return errors.New("no rules are loaded yet")
	}
	return tree.Dump(w)
}
