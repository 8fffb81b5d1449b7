package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/settings"
)

// complain says why the program ends: to people in lines that they can read, to
// programs that read a log in JSON as one more line of it.
func complain(w io.Writer, s settings.Process, what string, err error) {
	if s.LogFormat == "json" {
		newLogger(s, w).Error("weir ends", "reason", what, "problems", strings.Split(err.Error(), "\n"))
		return
	}
	fmt.Fprintf(w, "weir: %v\n", err)
}

func newLogger(s settings.Process, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel)}
	if s.LogFormat == "json" {
		options.ReplaceAttr = jsonField
		return slog.New(slog.NewJSONHandler(escapingWriter{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// jsonField gives time, level and message the names and spellings that they
// have in envoyproxy/ratelimit, so that what collects its log understands this
// one. It spells a duration as a setting does, which JSON would show in
// nanoseconds.
func jsonField(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		a.Key = "@timestamp"
	case slog.MessageKey:
		a.Key = "@message"
	case slog.LevelKey:
		a.Value = slog.StringValue(levelName(a.Value.Any()))
	}
	return a
}

// levelName is debug, info, warning or error.
func levelName(level any) string {
	if level == slog.LevelWarn {
		return "warning"
	}
	return strings.ToLower(fmt.Sprint(level))
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
// write them: a pipe that nobody reads must hold none of them. It keeps some lines
// that are not written yet, and drops the next ones.
type lossyWriter struct {
	lines   chan []byte
	waiting atomic.Int64 // bytes of lines
	lost    atomic.Int64
	closing context.CancelFunc
	ended   chan struct{} // closed when all is written, after close
}

// How many lines wait at most, and how many bytes they have together.
const (
	lossyLines = 8192
	lossyBytes = 1 << 20
)

// newLossyWriter returns a writer to w. tell writes to w how many lines were dropped.
func newLossyWriter(w io.Writer, tell func(lost int64)) *lossyWriter {
	closed, closing := context.WithCancel(context.Background())
	l := &lossyWriter{lines: make(chan []byte, lossyLines), closing: closing, ended: make(chan struct{})}
	write := func(line []byte) {
		_, _ = w.Write(line) // nobody is left to hear that it fails
		l.waiting.Add(-int64(len(line)))
		if lost := l.lost.Swap(0); lost > 0 {
			tell(lost)
		}
	}
	go func() {
		defer close(l.ended)
		for {
			select {
			case line := <-l.lines:
				write(line)
			case <-closed.Done():
				for range len(l.lines) {
					write(<-l.lines)
				}
				return
			}
		}
	}()
	return l
}

// Write implements io.Writer. It takes a line, waits for nobody and never fails.
func (l *lossyWriter) Write(line []byte) (int, error) {
	if l.waiting.Add(int64(len(line))) <= lossyBytes {
		select {
		case l.lines <- bytes.Clone(line):
			return len(line), nil
		default:
		}
	}
	l.waiting.Add(-int64(len(line)))
	l.lost.Add(1)
	return len(line), nil
}

// close waits until the lines before it are written, but no longer than patience.
func (l *lossyWriter) close(patience time.Duration) {
	l.closing()
	select {
	case <-l.ended:
	case <-time.After(patience):
	}
}
