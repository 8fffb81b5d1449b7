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

// complain writes err, the reason why the program exits, as lines for people. If asJSON is true, it
// writes what and err as a JSON record, for programs that read the log.
func complain(w io.Writer, asJSON bool, what string, err error) {
	if asJSON {
		newLogger(settings.Process{LogFormat: "json"}, w).Error("weir exits", "reason", what, "problems", strings.Split(err.Error(), "\n"))
		return
	}
	fmt.Fprintf(w, "weir: %s\n", plaintext.Lines(err.Error()))
}

// newLogger returns a logger with the level and the format of the settings.
func newLogger(s settings.Process, w io.Writer) *slog.Logger {
	var level slog.Level                        // info, unless the settings name another level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // cannot fail: the settings have been checked
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: shortField}
	if s.LogFormat == "json" {
		options.ReplaceAttr = jsonField
		return slog.New(slog.NewJSONHandler(escapingWriter{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// maxField is the maximum size of a field in bytes, enough for a hundred problems of rules.
const maxField = 16 << 10

// shortField cuts long values, because a control plane, Redis or a client may have written them.
func shortField(_ []string, a slog.Attr) slog.Attr {
	if text := a.Value.String(); len(text) > maxField {
		a.Value = slog.StringValue(plaintext.Cut(text, maxField))
	}
	return a
}

// jsonField is like shortField, for a log in JSON. It names and spells time, level and message as
// envoyproxy/ratelimit does, for programs that collect such logs. It writes a duration as in settings,
// such as 1m30s, because JSON would show nanoseconds.
func jsonField(groups []string, a slog.Attr) slog.Attr {
	a = shortField(groups, a)
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

// escapingWriter escapes control characters of terminals in lines of JSON.
type escapingWriter struct{ io.Writer }

func (w escapingWriter) Write(line []byte) (int, error) {
	_, err := w.Writer.Write(plaintext.JSON(line))
	return len(line), err
}

// lossyWriter writes lines to another writer in the background, so that no request waits for a pipe
// without a reader. Up to lossyLines lines may wait. Further lines are dropped.
type lossyWriter struct {
	lines chan []byte   // nil comes last, when the process ends
	lost  atomic.Int64  // number of dropped lines that have not been reported yet
	ended chan struct{} // closed when all lines before nil are written
}

const lossyLines = 4096

// newLossyWriter returns a lossyWriter to w. The function report must write the number of lost lines to w.
func newLossyWriter(w io.Writer, report func(lost int64)) *lossyWriter {
	l := &lossyWriter{lines: make(chan []byte, lossyLines), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for line := range l.lines {
			if line == nil {
				return
			}
			_, _ = w.Write(line) // an error could not be logged
			if lost := l.lost.Swap(0); lost > 0 {
				report(lost)
			}
		}
	}()
	return l
}

// Write implements io.Writer. It queues or drops one line. It never waits or fails.
func (l *lossyWriter) Write(line []byte) (int, error) {
	select {
	case l.lines <- bytes.Clone(line):
	default:
		l.lost.Add(1)
	}
	return len(line), nil
}

// close waits until all earlier lines are written, but no longer than patience.
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
