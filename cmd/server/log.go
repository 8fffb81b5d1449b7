package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/settings"
)

// complain says why the program exits: to people in lines that they can read, to
// programs that read a log in JSON as one more line of it.
func complain(w io.Writer, asJSON bool, what string, err error) {
	if asJSON {
		newLogger(settings.Process{LogFormat: "json"}, w).Error("weir exits", "reason", what, "problems", strings.Split(err.Error(), "\n"))
		return
	}
	fmt.Fprintf(w, "weir: %s\n", plaintext.Lines(err.Error()))
}

func newLogger(s settings.Process, w io.Writer) *slog.Logger {
	var level slog.Level                        // info, if there is none
	_ = level.UnmarshalText([]byte(s.LogLevel)) // which is one of its words
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		options.ReplaceAttr = jsonField
		return slog.New(slog.NewJSONHandler(escapingWriter{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// jsonField gives time, level and message the names and spellings that they have in
// envoyproxy/ratelimit, so that what collects its log understands this one. It spells a
// duration as a setting does, which JSON would show in nanoseconds.
func jsonField(groups []string, a slog.Attr) slog.Attr {
	switch {
	case a.Value.Kind() == slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case len(groups) > 0:
	case a.Key == slog.TimeKey:
		a.Key = "@timestamp"
	case a.Key == slog.MessageKey:
		a.Key = "@message"
	case a.Key == slog.LevelKey:
		level := strings.ToLower(a.Value.String())
		a.Value = slog.StringValue(strings.Replace(level, "warn", "warning", 1))
	}
	return a
}

// escapingWriter escapes in lines of JSON what a terminal obeys.
type escapingWriter struct{ io.Writer }

func (w escapingWriter) Write(line []byte) (int, error) {
	if _, err := w.Writer.Write(plaintext.JSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// lossyWriter writes lines to another writer in the background, because requests
// write them: a pipe that nobody reads must hold up none of them. It keeps lossyBytes that
// are not written yet, and drops the lines after them.
type lossyWriter struct {
	mu      sync.Mutex
	waiting []byte
	lost    int64
	wake    chan struct{} // nil after close
	ended   chan struct{} // closed when all is written, after close
}

const lossyBytes = 1 << 20

// newLossyWriter returns a writer to w. report writes to w how many lines were dropped.
func newLossyWriter(w io.Writer, report func(lost int64)) *lossyWriter {
	l := &lossyWriter{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go func(wake <-chan struct{}) {
		defer close(l.ended)
		for range wake {
			l.mu.Lock()
			lines, lost := l.waiting, l.lost
			l.waiting, l.lost = nil, 0
			l.mu.Unlock()
			_, _ = w.Write(lines) // nobody is left to hear that it fails
			if lost > 0 {
				report(lost)
			}
		}
	}(l.wake)
	return l
}

// Write implements io.Writer. It takes a line, waits for nobody and never fails.
func (l *lossyWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting)+len(line) > lossyBytes {
		l.lost++
		return len(line), nil
	}
	l.waiting = append(l.waiting, line...)
	select {
	case l.wake <- struct{}{}:
	default: // it is awake, or closed
	}
	return len(line), nil
}

// close waits until the lines before it are written, but no longer than patience.
func (l *lossyWriter) close(patience time.Duration) {
	l.mu.Lock()
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
	l.mu.Unlock()
	select {
	case <-l.ended:
	case <-time.After(patience):
	}
}
