// Package follow reads texts that change while the program runs: secrets in files, the output of
// commands, and TLS files. It reads them again at an interval, because not every file system
// reports when mounted Secrets and ConfigMaps are replaced.
//
// The last valid text stays in use until the next valid one. The package does not know the purpose
// of a secret, and no error or log record contains a secret.
//
// Read follow.go first: a Text reads its source at an interval. read.go reads files and runs commands. In
// tls.go, the files of one side of a TLS connection are one Text.
package follow

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Options are the options of a Text. All fields but RenewEvery and Check are required.
type Options struct {
	// Setting is the name of the setting with the file or the command, for errors and the log.
	Setting string
	// Read returns the text. Its errors must not quote the text.
	Read func(context.Context) (string, error)
	// Every is the interval between readings.
	Every time.Duration
	// RenewEvery is the minimum time from a reading until Renew may cause another.
	RenewEvery time.Duration
	// Check returns an error if a changed text is invalid. Its errors must not quote the text. If
	// Check is nil, every text is valid.
	Check func(string) error
	// Logger receives one record for each change and each problem.
	Logger *slog.Logger
}

// Text is a text that may change and is read at an interval.
type Text struct {
	opts  Options
	asked chan chan<- struct{} // requests of Renew; Run closes each channel when the reading is done
	ended chan struct{}        // closed when Run returns

	mu      sync.Mutex
	text    string
	problem string // error of the last reading, or ""
}

// Open reads the text that o describes, and returns it. An error names the text's setting.
func Open(ctx context.Context, o Options) (*Text, error) {
	text, err := o.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Setting, err)
	}
	return newText(o, text), nil
}

func newText(o Options, text string) *Text {
	return &Text{opts: o, asked: make(chan chan<- struct{}), ended: make(chan struct{}), text: text}
}

// Run reads the text every Options.Every, and when Renew requests it, until ctx ends. Then the last
// text stays, and Renew does nothing. Run must not be called again.
func (t *Text) Run(ctx context.Context) {
	defer close(t.ended)
	tick := time.Tick(t.opts.Every)
	for last := (time.Time{}); ; {
		done := make(chan<- struct{}) // after a tick, no caller waits for done
		select {
		case <-ctx.Done():
			return
		case <-tick:
			last = time.Time{}
		case done = <-t.asked:
		}
		if time.Since(last) >= t.opts.RenewEvery {
			t.read(ctx)
			last = time.Now()
		}
		close(done)
	}
}

// Text returns the last valid text.
func (t *Text) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// Problem returns the setting and the error of the last reading, or "" if the reading succeeded.
func (t *Text) Problem() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.problem == "" {
		return ""
	}
	return t.opts.Setting + ": " + t.problem
}

// Renew requests a reading, unless the last reading was within Options.RenewEvery, and waits until the
// reading is done or ctx is done. If ctx is done first, the reading continues.
func (t *Text) Renew(ctx context.Context) {
	done := make(chan struct{})
	select {
	case t.asked <- done:
		select {
		case <-done:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	case <-t.ended:
	}
}

// read reads the text, and uses it if it is valid.
func (t *Text) read(ctx context.Context) {
	text, err := t.opts.Read(ctx)
	if err == nil && text != t.Text() && t.opts.Check != nil {
		err = t.opts.Check(text)
	}
	if ctx.Err() != nil {
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
