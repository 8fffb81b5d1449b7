package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
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
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: shortField}
	if s.LogFormat == "json" {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr { return jsonField(groups, shortField(groups, a)) }
		return slog.New(slog.NewJSONHandler(escapingWriter{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// maxField is the most bytes of a field, which has room for a hundred problems of rules.
const maxField = 16 << 10

// shortField cuts long values: a control plane, Redis or a client may have written them.
func shortField(_ []string, a slog.Attr) slog.Attr {
	if text := a.Value.String(); len(text) > maxField {
		a.Value = slog.StringValue(plaintext.Cut(text, maxField))
	}
	return a
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
	_, err := w.Writer.Write(plaintext.JSON(line))
	return len(line), err
}

// lossyWriter writes lines to another writer in the background, because requests
// write them: a pipe that nobody reads must hold up none of them. It keeps lossyLines that
// are not written yet, and drops the lines after them.
type lossyWriter struct {
	lines chan []byte // nil is the end
	lost  atomic.Int64
	ended chan struct{} // closed when all before the end is written
}

const lossyLines = 4096

// newLossyWriter returns a writer to w. report writes to w how many lines were dropped.
func newLossyWriter(w io.Writer, report func(lost int64)) *lossyWriter {
	l := &lossyWriter{lines: make(chan []byte, lossyLines), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for line := range l.lines {
			if line == nil {
				return
			}
			_, _ = w.Write(line) // nobody is left to hear that it fails
			if lost := l.lost.Swap(0); lost > 0 {
				report(lost)
			}
		}
	}()
	return l
}

// Write implements io.Writer. It takes a line, waits for nobody and never fails.
func (l *lossyWriter) Write(line []byte) (int, error) {
	select {
	case l.lines <- bytes.Clone(line):
	default:
		l.lost.Add(1)
	}
	return len(line), nil
}

// close waits until the lines before it are written, but no longer than patience.
func (l *lossyWriter) close(patience time.Duration) {
	late := time.After(patience)
	select {
	case l.lines <- nil:
		select {
		case <-l.ended:
		case <-late:
		}
	case <-late:
	}
}
