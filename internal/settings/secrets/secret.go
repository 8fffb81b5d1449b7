// Package secrets has secrets that change while the program runs: the text of a file, or
// what a command prints. They are read again at an interval, because mounted Secrets are
// replaced in ways that not every file system reports.
//
// What was read last and was good stays in use until the next good text. The package does
// not know what a secret is for, and writes none into an error or a log. TLS files are read
// by tlsfiles, because a certificate and its key change together.
package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Options say where a secret comes from.
type Options struct {
	// Setting names the file or the command, for errors and the log.
	Setting string
	// Read returns the secret. Its errors hold nothing of it.
	Read func(context.Context) (string, error)
	// Every is the interval between two readings.
	Every time.Duration
	// RenewEvery is the least time between two readings that Renew asks for.
	RenewEvery time.Duration
	// Check returns what is wrong with a secret that has changed. Its errors hold nothing
	// of it. nil accepts every text.
	Check func(string) error
	// Logger logs changes and problems, each once.
	Logger *slog.Logger
}

// Secret is a text that changes.
type Secret struct {
	opts    Options
	ctx     context.Context // until Close
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	text    string
	problem string        // of the last reading, "" if it was good
	renewed time.Time     // when Renew last began a reading
	reading chan struct{} // closed when the reading under way ends, nil if there is none
}

// Open reads a secret. The error names its setting.
func Open(ctx context.Context, o Options) (*Secret, error) {
	text, err := o.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Setting, err)
	}
	s := &Secret{opts: o, text: text}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// Start has the secret read every Options.Every until Close.
func (s *Secret) Start() { s.running.Go(s.follow) }

// Close ends what runs. Text remains, and Renew does nothing.
func (s *Secret) Close() {
	s.mu.Lock()
	s.end() // under the lock, so that begin begins nothing after it
	s.mu.Unlock()
	s.running.Wait()
}

// Text returns the last good text.
func (s *Secret) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// Problem returns what is wrong with the setting and what it names, "" if the last reading
// was good.
func (s *Secret) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == "" {
		return ""
	}
	return s.opts.Setting + ": " + s.problem
}

func (s *Secret) follow() {
	tick := time.NewTicker(s.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if reading := s.begin(); reading != nil {
				<-reading
			}
		}
	}
}

// Renew has the secret read anew, unless it has just done so, and waits for a reading that is
// under way until ctx ends. The reading goes on without it.
func (s *Secret) Renew(ctx context.Context) {
	s.mu.Lock()
	isTime := time.Since(s.renewed) >= s.opts.RenewEvery
	if isTime {
		s.renewed = time.Now()
	}
	var reading <-chan struct{} = s.reading
	s.mu.Unlock()
	if isTime {
		reading = s.begin()
	}
	if reading == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-reading:
	}
}

// begin begins a reading, unless one is under way, and returns what is closed at its end. It
// returns nil after Close.
func (s *Secret) begin() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil
	}
	if s.reading == nil {
		s.reading = make(chan struct{})
		s.running.Go(s.read)
	}
	return s.reading
}

// read reads the secret, and uses it if it is good.
func (s *Secret) read() {
	text, err := s.opts.Read(s.ctx)
	if err == nil && text != s.Text() && s.opts.Check != nil {
		err = s.opts.Check(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.reading) // Text still waits for the lock
	s.reading = nil
	if s.ctx.Err() == nil {
		s.use(text, err)
	}
}

// use takes the text that was read, or the error, and logs what is new.
func (s *Secret) use(text string, err error) {
	log := s.opts.Logger.With("setting", s.opts.Setting)
	switch before := s.problem; {
	case err != nil:
		if s.problem = err.Error(); s.problem != before {
			log.Warn("a secret cannot be read anew, the one read before stays in use", "err", s.problem)
		}
		return
	case text != s.text:
		s.text = text
		log.Info("a secret has changed")
	case before != "":
		log.Info("a secret can be read again")
	}
	s.problem = ""
}
