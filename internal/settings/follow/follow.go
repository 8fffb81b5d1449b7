// Package follow reads what changes while the program runs: the secret in a file, what a
// command prints, and the files of TLS. They are read again at an interval, because
// mounted Secrets and ConfigMaps are replaced in ways that not every file system reports.
//
// What was read last and was good stays in use until the next good text. The package does
// not know what a secret is for, and writes none into an error or a log.
//
//	follow.go   Text, a text that is read anew
//	read.go     where it comes from: files and commands
//	tls.go      TLS, one side of it, whose files are a Text
package follow

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Options say where a text comes from.
type Options struct {
	// Setting names the file or the command, for errors and the log.
	Setting string
	// Read returns the text. Its errors hold nothing of it.
	Read func(context.Context) (string, error)
	// Every is the interval between two readings.
	Every time.Duration
	// RenewEvery is the least time between two readings that Renew asks for.
	RenewEvery time.Duration
	// Check returns what is wrong with a text that has changed. Its errors hold nothing
	// of it. nil accepts every text.
	Check func(string) error
	// Logger logs changes and problems, each once.
	Logger *slog.Logger

	log func(what event, problem string) // instead of Logger
}

// event is what is logged.
type event int

const (
	bad     event = iota // the text cannot be read, or is refused
	changed              // another text is used
	again                // the same text was read after a problem
)

// Text is a text that changes.
type Text struct {
	opts    Options
	ctx     context.Context // until Close
	end     context.CancelFunc
	wake    chan struct{} // begins a reading before its time
	running sync.WaitGroup

	mu      sync.Mutex
	started bool
	text    string
	problem string        // of the last reading, "" if it was good
	renewed time.Time     // when Renew last asked for a reading
	reading chan struct{} // closed when the reading under way ends, nil if there is none
}

// Open reads a text. The error names its setting.
func Open(ctx context.Context, o Options) (*Text, error) {
	text, err := o.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Setting, err)
	}
	o.log = o.logSecret
	return newText(o, text), nil
}

func newText(o Options, text string) *Text {
	t := &Text{opts: o, text: text, wake: make(chan struct{}, 1)}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

func (o Options) logSecret(what event, problem string) {
	log := o.Logger.With("setting", o.Setting)
	switch what {
	case bad:
		log.Warn("a changed secret cannot be used; the previous one stays in use", "err", problem)
	case changed:
		log.Info("a secret has changed")
	case again:
		log.Info("a secret can be used again")
	}
}

// Start has the text read every Options.Every, and when Renew asks for it, until Close.
func (t *Text) Start() {
	t.mu.Lock()
	t.started = true
	t.mu.Unlock()
	t.running.Go(func() {
		tick := time.NewTicker(t.opts.Every)
		defer tick.Stop()
		for {
			select {
			case <-t.ctx.Done():
				return
			case <-tick.C:
			case <-t.wake:
			}
			t.read()
		}
	})
}

// Close ends the readings. Text remains, and Renew does nothing.
func (t *Text) Close() {
	t.end()
	t.running.Wait()
}

// Text returns the last good text.
func (t *Text) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// Problem returns what is wrong with the setting and what it names, "" if the last reading
// was good.
func (t *Text) Problem() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.problem == "" {
		return ""
	}
	return t.opts.Setting + ": " + t.problem
}

// Renew has the text read anew, unless it has just done so, and waits for a reading that is
// under way until ctx ends. The reading goes on without it. Before Start it does nothing.
func (t *Text) Renew(ctx context.Context) {
	t.mu.Lock()
	if t.started && time.Since(t.renewed) >= t.opts.RenewEvery {
		t.renewed = time.Now()
		if t.reading == nil {
			t.reading = make(chan struct{})
			select {
			case t.wake <- struct{}{}:
			default: // it is to begin one already
			}
		}
	}
	reading := t.reading
	t.mu.Unlock()
	if reading == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-t.ctx.Done():
	case <-reading:
	}
}

// read reads the text, and uses it if it is good.
func (t *Text) read() {
	t.mu.Lock()
	if t.reading == nil {
		t.reading = make(chan struct{})
	}
	t.mu.Unlock()
	text, err := t.opts.Read(t.ctx)
	if err == nil && text != t.Text() && t.opts.Check != nil {
		err = t.opts.Check(text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.reading) // Text still waits for the lock
	t.reading = nil
	if t.ctx.Err() != nil {
		return
	}
	before := t.problem
	t.problem = ""
	switch {
	case err != nil:
		if t.problem = err.Error(); t.problem != before {
			t.opts.log(bad, t.problem)
		}
	case text != t.text:
		t.text = text
		t.opts.log(changed, "")
	case before != "":
		t.opts.log(again, "")
	}
}
