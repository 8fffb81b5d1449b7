// Package follow reads what changes while the program runs: the secret in a file, what a
// command prints, and the files of TLS. They are read again at an interval, because
// mounted Secrets and ConfigMaps are replaced in ways that not every file system reports.
//
// What was read last and was good stays in use until the next good text. The package does
// not know what a secret is for, and writes none into an error or a log.
//
// Text, in follow.go, is a text that is read again and again, by read.go from files and
// commands. The files of one side of TLS are one, too, in tls.go.
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
	// RenewEvery is the least time from a reading to one that Renew asks for.
	RenewEvery time.Duration
	// Check returns what is wrong with a text that has changed. Its errors hold nothing
	// of it. nil accepts every text.
	Check func(string) error
	// Logger logs changes and problems, each once.
	Logger *slog.Logger
}

// Text is a text that changes.
type Text struct {
	opts    Options
	ctx     context.Context // until Close
	end     context.CancelFunc
	asked   chan chan<- struct{} // by Renew, which waits until its channel is closed
	running sync.WaitGroup

	mu      sync.Mutex
	text    string
	problem string // of the last reading, "" if it was good
}

// Open reads a text. The error names its setting.
func Open(ctx context.Context, o Options) (*Text, error) {
	text, err := o.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Setting, err)
	}
	return newText(o, text), nil
}

func newText(o Options, text string) *Text {
	t := &Text{opts: o, asked: make(chan chan<- struct{}), text: text}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// Start has the text read every Options.Every, and when Renew asks for it, until Close.
func (t *Text) Start() {
	t.running.Go(func() {
		tick := time.NewTicker(t.opts.Every)
		defer tick.Stop()
		for last := (time.Time{}); ; {
			done := make(chan<- struct{}) // of nobody
			select {
			case <-t.ctx.Done():
				return
			case <-tick.C:
				last = time.Time{}
			case done = <-t.asked:
			}
			if time.Since(last) >= t.opts.RenewEvery {
				t.read()
				last = time.Now()
			}
			close(done)
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

// Renew has the text read again, unless that has just been done, and waits for it until ctx
// ends. The reading goes on without it.
func (t *Text) Renew(ctx context.Context) {
	done := make(chan struct{})
	select {
	case t.asked <- done:
		select {
		case <-done:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	case <-t.ctx.Done():
	}
}

// read reads the text, and uses it if it is good.
func (t *Text) read() {
	text, err := t.opts.Read(t.ctx)
	if err == nil && text != t.Text() && t.opts.Check != nil {
		err = t.opts.Check(text)
	}
	if t.ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	log, before := t.opts.Logger.With("setting", t.opts.Setting), t.problem
	t.problem = ""
	switch {
	case err != nil:
		if t.problem = err.Error(); t.problem != before {
			log.Warn("a changed setting cannot be used; the previous value stays in use", "err", t.problem)
		}
	case text != t.text || before != "":
		t.text = text
		log.Info("a changed setting is in use")
	}
}
