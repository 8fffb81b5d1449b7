package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"weir/internal/settings"
	"weir/internal/testenv"
)

// TestLogsEscapeWhatTerminalsObey logs text that may come from clients, in both formats.
func TestLogsEscapeWhatTerminalsObey(t *testing.T) {
	const odd = "a\x1b[31m\u009b31m\x7f\u202e\U000e0041\nb größer 限"
	for _, format := range []settings.Word{"text", "json"} {
		var log bytes.Buffer
		logger := newLogger(settings.Process{LogFormat: format}, &log)
		logger.With(odd, odd).Error(odd, "text", odd, "error", errors.New(odd)) //nolint:sloglint // the key may come from clients
		logger.Error("the next")
		lines := strings.SplitAfter(log.String(), "\n")
		if len(lines) != 3 {
			t.Fatalf("%s: got %q, want two lines", format, lines)
		}
		if i := strings.IndexFunc(lines[0][:len(lines[0])-1], func(r rune) bool { return !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("%s: %q has what a terminal obeys: %q", format, lines[0], lines[0][i:])
		}
		if format != "json" {
			continue
		}
		var fields map[string]string
		testenv.OK(t, json.Unmarshal([]byte(lines[0]), &fields))
		for _, name := range []string{odd, "@message", "text", "error"} {
			testenv.Equal(t, fields[name], odd, "%q", name)
		}
	}
}

// TestLogsCutLongTexts logs megabytes of text that may come from clients, in both formats.
func TestLogsCutLongTexts(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for _, format := range []settings.Word{"text", "json"} {
		var log bytes.Buffer
		newLogger(settings.Process{LogFormat: format}, &log).Error(long, "text", long, "error", errors.New(long), "long_list", []string{long}, "list", []string{"short"}) //nolint:sloglint // the message may come from clients
		if n := strings.Count(log.String(), "é... (2097"); n != 4 || log.Len() > 5*maxField || !strings.Contains(log.String(), "list=[short]") && !strings.Contains(log.String(), `["short"]`) {
			t.Errorf("%s: %d texts are cut in a line of %d bytes, want 4 in less than %d", format, n, log.Len(), 5*maxField)
		}
	}
}

// TestLossyWriter writes more lines than fit while the pipe has no reader, and then reads it.
func TestLossyWriter(t *testing.T) {
	const kept = lossyLines + 1 // including the line that is being written
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		l := newLossyWriter(writer, func(lost int64) { fmt.Fprintf(writer, "lost %d\n", lost) })
		var want strings.Builder
		for n := range kept + 5 {
			line := fmt.Sprintln(n)
			fmt.Fprint(l, line)
			if synctest.Wait(); n < kept {
				want.WriteString(line)
			}
			if n == 0 {
				want.WriteString("lost 5\n")
			}
		}
		l.close(10 * time.Millisecond)
		text := make([]byte, want.Len())
		if _, err := io.ReadFull(reader, text); err != nil || string(text) != want.String() {
			t.Errorf("%v, got %.20q, want %.20q", err, text, want.String())
		}
		l.close(time.Minute)
		<-l.ended
		fmt.Fprintln(l, "after the end") // must return
	})
}
