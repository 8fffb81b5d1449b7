package accesslog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// readAll returns all lines of a log by number, and the error that ended the reading.
func readAll(t *testing.T, log string) (lines map[int64]string, err error) {
	t.Helper()
	s := testenv.Must(Open(testenv.File(t, "access.log", log)))(t)
	defer s.Close()
	lines = map[int64]string{}
	buf := make([]byte, 0, blockSize)
	for {
		block, number, err := s.Next(buf)
		if err != nil {
			return lines, err
		}
		for line := range bytes.Lines(block) {
			lines[number] = strings.TrimSuffix(string(line), "\n")
			number++
		}
	}
}

// Next returns lines of all lengths with their numbers, from plain files and from gzip with several members. It
// cuts off long lines.
func TestSource(t *testing.T) {
	var data bytes.Buffer
	var want []string
	data.WriteString("\ufeff") // a byte order mark, which is not part of the first line
	for i := range 5000 {
		line := fmt.Sprint(i, strings.Repeat("x", i%300))
		if i == 1 {
			line = "\ufeff of the line"
		}
		if i == 700 || i == 2500 || i == 2501 {
			line = strings.Repeat("y", maxLine-1+i%3)
		}
		want = append(want, line[:min(len(line), maxLine)])
		data.WriteString(line + "\n")
	}
	last := strings.Repeat("z", 1<<20) // without a line break
	data.WriteString(last)
	want = append(want, last[:maxLine])
	text, half := data.String(), data.Len()/2
	for name, content := range map[string]string{"plain": text, "gzip": testenv.Gzip(t, text[:half]) + testenv.Gzip(t, text[half:])} {
		t.Run(name, func(t *testing.T) {
			lines, err := readAll(t, content)
			if !errors.Is(err, io.EOF) || len(lines) != len(want) {
				t.Fatalf("%d lines, want %d; %v", len(lines), len(want), err)
			}
			for i, line := range want {
				if got := lines[int64(i+1)]; got != line {
					t.Fatalf("line %d is %.40q with %d bytes, want %.40q with %d", i+1, got, len(got), line, len(line))
				}
			}
		})
	}
}

// The lines of a truncated file are read, and the error names the last line.
func TestSourceCutOff(t *testing.T) {
	for data, want := range map[string]string{
		"one\ntwo\n":      "access.log: after line 2: unexpected EOF",
		"one\ntwo\nthree": "access.log: after line 3: unexpected EOF",
		"":                "access.log: unexpected EOF",
	} {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := io.WriteString(w, data)
		testenv.OK(t, errors.Join(err, w.Flush())) // not closed, so the file is truncated
		if _, err := readAll(t, b.String()); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", data, err, want)
		}
	}
}
