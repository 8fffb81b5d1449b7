package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

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

// escapingWriter escapes, as JSON does, what is no graphic character in lines of
// JSON: encoding/json leaves some that a terminal obeys. What is read from the lines
// stays the same.
type escapingWriter struct{ io.Writer }

func (w escapingWriter) Write(line []byte) (int, error) {
	if bytes.IndexFunc(line, obeyed) < 0 {
		return w.Writer.Write(line)
	}
	var escaped []byte
	for _, r := range string(line) {
		if !obeyed(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	if _, err := w.Writer.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}

// obeyed reports whether a terminal may do something else with r than show it. Line
// breaks are between lines only.
func obeyed(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }
