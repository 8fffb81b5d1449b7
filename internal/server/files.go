package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/descriptors"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/settings"
)

// files are the source of rules that are in files. A load reads all of them and
// compiles them to a new tree.
type files struct {
	*rules
	settings settings.Rules
	path     string

	asking  sync.Mutex
	next    func() error // load that those who ask now share, nil if nobody waits for one
	loading sync.Mutex   // held while the rules are loaded
	seen    string       // how the files looked when they were read last
	retry   time.Time    // when to read them again though they look the same, zero: never
	skipped map[string]bool
}

// openFiles loads the rules for the first time. Whether that may fail is a setting.
func openFiles(r *rules, s settings.Rules) (*files, error) {
	r.status.Path = s.Path()
	f := &files{rules: r, settings: s, path: s.Path(), skipped: map[string]bool{}}
	f.seen = f.look()
	err := f.read()
	if err == nil || !s.ForceStart {
		return f, err
	}
	f.logRefusal(err, "path", f.path)
	if !s.HealthNeedsRules {
		f.loaded() // as far as health is concerned
	}
	return f, nil
}

const (
	// lookEvery is how often sizes and times of the files are looked at. If a look takes long, as
	// at 10,000 files, the pause after it is lookShare times as long, up to lookPause.
	lookEvery = 200 * time.Millisecond
	lookShare = 50
	lookPause = 30 * time.Second
	// retryEvery is how often files are read that could not be, as for lack of descriptors.
	retryEvery = 5 * time.Second
)

// run keeps the rules as their files are until ctx ends. It reads what has changed when it
// has not changed again since the look before, so that a file is whole, and a set of files
// is read once.
func (f *files) run(ctx context.Context) {
	wait := lookEvery
	for before := ""; pause(ctx, wait); {
		began := time.Now()
		now := f.look()
		wait = min(max(lookEvery, lookShare*time.Since(began)), lookPause)
		if now == before {
			f.loading.Lock()
			_ = f.load(now, false) // it has logged its error
			f.loading.Unlock()
		}
		before = now
	}
}

// reload implements source. Those who ask while the rules are loaded share the next load.
func (f *files) reload() error {
	f.asking.Lock()
	if f.next == nil {
		f.next = sync.OnceValue(func() error {
			f.loading.Lock()
			defer f.loading.Unlock()
			f.asking.Lock()
			f.next = nil // later callers may have changed a file that this load has read
			f.asking.Unlock()
			return f.load(f.look(), true)
		})
	}
	shared := f.next
	f.asking.Unlock()
	return shared()
}

// load loads the rules, and logs why they do not serve. It does nothing, unless again is
// true, if the files look as they did when they were read last. f.loading must be locked.
func (f *files) load(look string, again bool) error {
	if due := !f.retry.IsZero() && !time.Now().Before(f.retry); look == f.seen && !again && !due {
		return nil
	}
	f.seen = look
	before := f.report().Problems
	err := f.read()
	if err != nil && (again || f.report().Problems != before) {
		f.logRefusal(err, "path", f.path)
	}
	return err
}

// look describes the files without reading them: names, sizes, times, also of the last change
// of any kind, and where links lead to.
func (f *files) look() string {
	roots := []string{f.path}
	if f.settings.WithSiblings() {
		dir := filepath.Dir(f.path)
		entries, _ := os.ReadDir(dir) // what cannot be read has no siblings
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), filepath.Base(f.path)+".") {
				roots = append(roots, filepath.Join(dir, entry.Name()))
			}
		}
	}
	var text strings.Builder
	for _, root := range roots {
		real, _ := filepath.EvalSymlinks(root)
		_ = filepath.WalkDir(real, func(path string, entry fs.DirEntry, err error) error {
			if path != real && strings.HasPrefix(entry.Name(), ".") {
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			fmt.Fprintln(&text, path, err) // what cannot be read differs from what can
			var file unix.Stat_t
			if unix.Stat(path, &file) == nil && file.Mode&unix.S_IFMT != unix.S_IFDIR {
				fmt.Fprintln(&text, file.Dev, file.Ino, file.Size, file.Mtim, file.Ctim)
			}
			return nil
		})
	}
	return text.String()
}

// read reads the files, warns of those that it leaves out, and compiles the others.
func (f *files) read() error {
	found, skipped, err := ReadRules(f.settings.RulesPath)
	for _, name := range skipped {
		if !f.skipped[name] {
			f.skipped[name] = true
			f.logger.Warn("file skipped", "file", name, "reason", descriptors.WhySkipped(name))
		}
	}
	err = f.rules.load(context.Background(), api.Rules{Path: f.path, Files: len(found)}, func(o descriptors.Options) (*descriptors.Tree, error) {
		if err == nil && len(found) == 0 {
			err = descriptors.NoFiles(f.path)
		}
		if err != nil {
			path, _ := filepath.Abs(f.path) // fails if there is no working directory
			return nil, fmt.Errorf("rules at %s (see %s): %w", path, f.settings.Named(), err)
		}
		return descriptors.Load(found, o)
	})
	f.retry = time.Time{}
	if problems, ok := errors.AsType[descriptors.Problems](err); ok {
		return operators.Errorf(operators.ErrInvalidRules, "invalid rules:\n%w", problems)
	}
	if err != nil {
		f.retry = time.Now().Add(retryEvery)
	}
	return err
}
