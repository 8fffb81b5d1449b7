package server

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// quiet is how long nothing must have changed before the rules are read, so
// that a file is whole and a set of files is read once.
const quiet = 50 * time.Millisecond

// soon is when files are read again that could not be read for want of descriptors.
const soon = time.Second

// watch keeps the rules as their files are until ctx ends: it looks when w tells
// of a change and after every interval, because some file systems tell nothing.
// A value from reload loads them unconditionally.
func (f *files) watch(ctx context.Context, w *watcher, interval time.Duration, reload <-chan os.Signal) {
	defer w.close()
	poll := time.NewTicker(interval)
	defer poll.Stop()
	var settled <-chan time.Time
	refresh := func() {
		w.follow() // first, so that no later change is missed
		if f.refresh(ctx) {
			settled = time.After(soon)
		}
	}
	refresh()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-w.events:
			if w.concerns(event.Name) {
				settled = time.After(quiet)
			}
		case <-w.errors: // events were lost
			settled = time.After(quiet)
		case <-settled:
			settled = nil
			refresh()
		case <-poll.C:
			refresh()
		case <-reload:
			_ = f.renew(ctx, f.read()) // it has logged its error
		case <-f.reloads.asked:
			f.serveReload(ctx)
			pause(ctx, quiet) // for those who ask without end
		}
	}
}

// watcher hears of changes to the file or directory at path. Directories are
// watched rather than files, because editors and ConfigMaps replace a file
// instead of writing to it.
type watcher struct {
	path     string
	siblings bool // what begins with path and a dot matters, too
	logger   *slog.Logger

	notify *fsnotify.Watcher // nil if the system has none to give
	events <-chan fsnotify.Event
	errors <-chan error

	places places
}

func newWatcher(path string, logger *slog.Logger) *watcher {
	w := &watcher{path: path, logger: logger}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		logger.Warn("changes of rules are noticed by polling only", "err", err)
		return w
	}
	w.notify, w.events, w.errors = notify, notify.Events, notify.Errors
	return w
}

func (w *watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close() // there is nothing left to lose
	}
}

// follow watches the directories that matter now and no others. It looks again
// after it began to watch one, because what appeared in it before told nobody.
func (w *watcher) follow() {
	if w.notify == nil {
		return
	}
	for w.adjust() {
	}
}

// adjust watches what matters and reports whether that includes a new directory.
func (w *watcher) adjust() (added bool) {
	w.places = placesOf(w.path)
	if w.siblings {
		w.places.addSiblings(w.path)
	}
	wanted := w.places.directories()
	for _, dir := range w.notify.WatchList() {
		if !wanted[dir] {
			_ = w.notify.Remove(dir) // fails if the directory has just gone
		}
		delete(wanted, dir)
	}
	for dir := range wanted {
		if err := w.notify.Add(dir); err != nil {
			w.logger.Debug("changes of a directory are noticed by polling only", "directory", dir, "err", err)
			continue
		}
		added = true
	}
	return added
}

// concerns reports whether a change of name may change the rules.
func (w *watcher) concerns(name string) bool {
	return w.places.names[name] || w.places.trees[name] || w.places.trees[filepath.Dir(name)]
}

// places says where changes matter, in real paths.
type places struct {
	trees map[string]bool // directories of rules: everything in them matters
	names map[string]bool // in their parents: names that lead to the rules
}

// directories are those that must be watched to hear of all that matters.
func (p places) directories() map[string]bool {
	dirs := maps.Clone(p.trees)
	for name := range p.names {
		dirs[filepath.Dir(name)] = true
	}
	return dirs
}

// placesOf finds the directories at and below path, and on the way to it the
// symbolic links that may be turned elsewhere and the names that may appear.
func placesOf(path string) places {
	p := places{map[string]bool{}, map[string]bool{}}
	path, err := filepath.Abs(path)
	if err != nil {
		return p
	}
	for name := path; name != filepath.Dir(name); name = filepath.Dir(name) {
		info, err := os.Lstat(name)
		if name != path && err == nil && info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
			p.names[filepath.Join(dir, filepath.Base(name))] = true
		}
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		path = filepath.Dir(path) // a file may be a link to a sibling that is one
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return p
	}
	_ = filepath.WalkDir(real, func(dir string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			p.trees[dir] = true
		}
		return nil // what cannot be read is not watched
	})
	return p
}

// addSiblings adds the directory that path is in, and the places of what is in it
// and bears the name of path with a dot and more.
func (p places) addSiblings(path string) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		p.trees[real] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // as what cannot be read in a directory
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), filepath.Base(path)+".") {
			sibling := placesOf(filepath.Join(dir, entry.Name()))
			maps.Copy(p.trees, sibling.trees)
			maps.Copy(p.names, sibling.names)
		}
	}
}
