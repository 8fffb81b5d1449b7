package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

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
