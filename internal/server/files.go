package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/settings"
)

// files are the source of rules that are in files. A load checks all of them and
// compiles them to a new tree.
type files struct {
	*rules
	settings settings.Rules
	path     string
	signals  <-chan os.Signal // each loads the rules again
	poll     time.Duration    // between two readings

	asked chan chan<- error // who waits for a load of its own gets its outcome
	ended chan struct{}     // closed when nothing is loaded any more

	// What only the goroutine of start and then that of run use, which loads.
	digest  [sha256.Size]byte
	skipped map[string]bool
}

func newFiles(r *rules, s settings.Rules, signals <-chan os.Signal, poll time.Duration) *files {
	r.status.Path = s.Path()
	return &files{
		rules: r, settings: s, path: s.Path(), signals: signals, poll: poll,
		asked: make(chan chan<- error), ended: make(chan struct{}), skipped: map[string]bool{},
	}
}

// start loads the rules for the first time. Whether it may fail is a setting.
func (f *files) start() error {
	err := f.load(context.Background(), f.read())
	if err != nil && f.settings.ForceStart {
		f.logger.Error("starting without rules; until some are loaded, requests get UNAVAILABLE", "path", f.path)
		f.logProblems(err)
		if !f.settings.HealthNeedsRules {
			f.loaded() // as far as health is concerned
		}
		return nil
	}
	return err
}

// lookEvery is how often sizes and times of the files are looked at. What has changed is
// read when it has not changed again since the look before, so that a file is whole, and a
// set of files is read once.
const lookEvery = 200 * time.Millisecond

// pollEvery is how often the files are read, because some file systems report times late.
const pollEvery = 5 * time.Second

// rest is the time between two loads that somebody asks for, perhaps without end.
const rest = 50 * time.Millisecond

// run keeps the rules as their files are until ctx ends. It reads them when they look
// different, and at every poll. A signal loads them unconditionally.
func (f *files) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { close(f.ended) }) // even if a read never ends
	defer stop()
	look, poll := time.NewTicker(lookEvery), time.NewTicker(f.poll)
	defer look.Stop()
	defer poll.Stop()
	read, before := "", "" // how the files looked when they were read, and at the last look
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			now := f.look()
			if now != read && now == before {
				read = now
				f.refresh(ctx)
			}
			before = now
		case <-poll.C:
			f.refresh(ctx)
		case <-f.signals:
			_ = f.renew(ctx, f.read()) // it has logged its error
		case answer := <-f.asked:
			f.serve(ctx, answer)
		}
	}
}

// look describes the files without reading them: names, sizes, times, and where links
// lead to.
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
		real, err := filepath.EvalSymlinks(root)
		fmt.Fprintln(&text, real, err)
		_ = filepath.WalkDir(real, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				var info fs.FileInfo
				if info, err = os.Stat(path); err == nil {
					fmt.Fprintln(&text, path, info.Size(), info.Mode(), info.ModTime().UnixNano())
					return nil
				}
			}
			fmt.Fprintln(&text, path, err)
			return nil // what cannot be read differs from what can
		})
	}
	return text.String()
}

// refresh loads the rules if they are not what the last load saw.
func (f *files) refresh(ctx context.Context) {
	if c := f.read(); c.digest != f.digest {
		_ = f.renew(ctx, c) // it has logged its error
	}
}

// errEnded is what those get who wait for a load when the server ends.
var errEnded = errors.New("the server is shutting down and loads no rules")

func (f *files) reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case f.asked <- answer:
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ended:
		return errEnded
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ended:
		return errEnded
	}
}

// serve loads the rules once for all who wait in reload.
func (f *files) serve(ctx context.Context, first chan<- error) {
	waiting := []chan<- error{first}
	for more := true; more; {
		select {
		case next := <-f.asked:
			waiting = append(waiting, next)
		default:
			more = false
		}
	}
	c := f.read()
	c.again = c.digest == f.digest
	err := f.renew(ctx, c)
	for _, answer := range waiting {
		answer <- err
	}
	pause(ctx, rest)
}

// renew loads rules in place of others.
func (f *files) renew(ctx context.Context, c content) error {
	err := f.load(ctx, c)
	f.end()
	if err != nil && ctx.Err() == nil {
		f.logRefusal(err, "path", f.path)
	}
	return err
}

// content is what was found at the path of the rules.
type content struct {
	files  []descriptors.File
	err    error
	digest [sha256.Size]byte
	again  bool // somebody asks for them without end, perhaps: the log knows them
}

// read reads the files, and warns of those that it leaves out.
func (f *files) read() content {
	found, skipped, err := f.find()
	if err == nil && len(found) == 0 {
		err = descriptors.NoFiles(f.path)
	}
	if err != nil {
		path, _ := filepath.Abs(f.path) // fails if there is no working directory
		err = fmt.Errorf("rules at %s (see %s): %w", path, f.settings.Named(), err)
	}
	for _, name := range skipped {
		if !f.skipped[name] {
			f.skipped[name] = true
			f.logger.Warn("file skipped", "file", name, "reason", descriptors.WhySkipped(name))
		}
	}
	hash := sha256.New()
	for _, file := range found {
		fmt.Fprintf(hash, "%q %d ", file.Name, len(file.Data))
		hash.Write(file.Data)
	}
	if err != nil {
		fmt.Fprint(hash, err)
	}
	return content{files: found, err: err, digest: [sha256.Size]byte(hash.Sum(nil))}
}

func (f *files) find() (found []descriptors.File, skipped []string, err error) {
	return ReadRules(f.settings.RulesPath, f.path)
}

// ReadRules reads the files of rules at path, which is that of s, as the server
// does. skipped are files that hold no rules, see descriptors.WhySkipped.
func ReadRules(s settings.RulesPath, path string) (found []descriptors.File, skipped []string, err error) {
	if s.WithSiblings() {
		return descriptors.ReadWithSiblings(path)
	}
	return descriptors.ReadFiles(path)
}

// load compiles what was read and lets it serve, or notes why it cannot. If ctx
// ends, it does neither.
func (f *files) load(ctx context.Context, c content) error {
	tree, err := f.compile(ctx, c)
	if ctx.Err() != nil {
		return errEnded
	}
	f.digest = c.digest
	if err != nil {
		f.refuse(err, "")
		return err
	}
	f.accept(tree, api.Rules{Path: f.path, Files: len(c.files)})
	if c.again {
		return nil
	}
	f.logger.Info("rules loaded", "path", f.path, "files", len(c.files), "domains", tree.Domains(), "rules", tree.Rules())
	f.warn(tree.Warnings())
	return nil
}

func (f *files) compile(ctx context.Context, c content) (*descriptors.Tree, error) {
	if c.err != nil {
		return nil, c.err
	}
	tree, err := descriptors.Load(c.files, f.begin(ctx))
	if err != nil {
		return nil, operators.Errorf(operators.ErrInvalidRules, "invalid rules:\n%w", brief(err))
	}
	return tree, nil
}
