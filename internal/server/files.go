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

// files is the source of rules in files. A load reads all files and compiles them to a new tree.
type files struct {
	*rules
	settings.RulesPath

	asking  sync.Mutex
	next    func() error    // the load that new callers of reload share, or nil
	loading sync.Mutex      // locked during a load
	seen    string          // the result of look before the last load
	retry   time.Time       // when to load again even if the files look the same, or zero for never
	skipped map[string]bool // paths that were logged as skipped
}

// openFiles loads the rules for the first time. If s.ForceStart is true, it only logs an error.
func openFiles(r *rules, s settings.Rules) (*files, error) {
	r.status.Path = s.Path()
	f := &files{rules: r, RulesPath: s.RulesPath, skipped: map[string]bool{}}
	f.seen = f.look()
	err := f.read()
	if err == nil || !s.ForceStart {
		return f, err
	}
	f.logRefusal(err, "path", f.Path())
	if !s.HealthNeedsRules {
		f.loaded() // makes the server healthy
	}
	return f, nil
}

const (
	// lookEvery is the pause between two looks at sizes and times of files. If a look takes a long
	// time, as with 10,000 files, the pause is lookShare times as long as the look, up to lookPause.
	lookEvery = 200 * time.Millisecond
	lookShare = 50
	lookPause = 30 * time.Second
	// retryEvery is the pause after which files that could not be read are read again.
	retryEvery = 5 * time.Second
)

// run loads changed files until ctx ends. It waits until two consecutive looks see the same, so
// that files are complete and several changed files cause only one load.
func (f *files) run(ctx context.Context) {
	wait := lookEvery
	for before := ""; pause(ctx, wait); {
		began := time.Now()
		now := f.look()
		wait = min(max(lookEvery, lookShare*time.Since(began)), lookPause)
		if now == before {
			f.loading.Lock()
			_ = f.load(now, false) // load logs its error
			f.loading.Unlock()
		}
		before = now
	}
}

// reload implements source. All callers that arrive during a load share the next load.
func (f *files) reload() error {
	f.asking.Lock()
	if f.next == nil {
		f.next = sync.OnceValue(func() error {
			f.loading.Lock()
			defer f.loading.Unlock()
			f.asking.Lock()
			f.next = nil // later callers may change a file after this load has read it
			f.asking.Unlock()
			return f.load(f.look(), true)
		})
	}
	shared := f.next
	f.asking.Unlock()
	return shared()
}

// load loads the rules if the files look different from before the last load, if again is true, or if
// f.retry has passed. Unless again is true, it logs an error only once. f.loading must be locked.
func (f *files) load(look string, again bool) error {
	if due := !f.retry.IsZero() && !time.Now().Before(f.retry); look == f.seen && !again && !due {
		return nil
	}
	f.seen = look
	before := f.report().Problems
	err := f.read()
	if err != nil && (again || f.report().Problems != before) {
		f.logRefusal(err, "path", f.Path())
	}
	return err
}

// look describes the files without reading them: names, sizes, times of the last write and the last
// change of any kind, and targets of links.
func (f *files) look() string {
	roots := []string{f.Path()}
	if f.WithSiblings() {
		dir := filepath.Dir(f.Path())
		entries, _ := os.ReadDir(dir) // if dir cannot be read, there are no siblings
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), filepath.Base(f.Path())+".") {
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
			fmt.Fprintln(&text, path, err) // err, because a file that becomes readable must look different
			var file unix.Stat_t
			if unix.Stat(path, &file) == nil && file.Mode&unix.S_IFMT != unix.S_IFDIR {
				fmt.Fprintln(&text, file.Dev, file.Ino, file.Size, file.Mtim, file.Ctim)
			}
			return nil
		})
	}
	return text.String()
}

// read reads and compiles the files, and logs the names of skipped files once.
func (f *files) read() error {
	found, skipped, err := ReadRules(f.RulesPath)
	for _, name := range skipped {
		if !f.skipped[name] {
			f.skipped[name] = true
			f.logger.Warn("file skipped", "file", name, "reason", descriptors.WhySkipped(name))
		}
	}
	var contents [][]byte
	for _, file := range found {
		contents = append(contents, file.Data)
	}
	err = f.rules.load(context.Background(), api.Rules{Path: f.Path(), Files: len(found), Hash: shortHash(contents...)}, func(o descriptors.Options) (*descriptors.Tree, error) {
		if err == nil && len(found) == 0 {
			err = descriptors.NoFiles(f.Path())
		}
		if err != nil {
			path, _ := filepath.Abs(f.Path()) // fails only without a working directory
			return nil, fmt.Errorf("rules at %s (see %s): %w", path, f.Named(), err)
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
