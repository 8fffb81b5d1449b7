package accesslog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeLog(t *testing.T, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// readAll returns all lines with their numbers, the numbers of those that are too long, and the error that
// ended the log.
func readAll(t *testing.T, name string) (lines map[int64]string, long []int64, err error) {
	t.Helper()
	s, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lines = map[int64]string{}
	buf := make([]byte, 0, BlockSize)
	for {
		b, err := s.Next(buf)
		if err != nil {
			return lines, long, err
		}
		number := b.First
		for line := range bytes.Lines(b.Data) {
			lines[number] = strings.TrimSuffix(string(line), "\n")
			number++
		}
		if b.Long > 0 {
			long = append(long, b.Long)
		}
	}
}

func zip(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Lines come with their numbers from files and gzip of any number of members, whatever their lengths;
// one that is too long is left out.
func TestSource(t *testing.T) {
	var data bytes.Buffer
	var want []string
	for i := range 5000 {
		line := fmt.Sprint(i, strings.Repeat("x", i%300))
		if i == 700 || i == 2500 || i == 2501 {
			line = strings.Repeat("y", 1<<20)
		}
		want = append(want, line)
		data.WriteString(line + "\n")
	}
	data.WriteString("the last, without an end")
	want = append(want, "the last, without an end")
	half := data.Len() / 2
	for name, content := range map[string][]byte{
		"plain": data.Bytes(),
		"gzip":  append(zip(t, data.Bytes()[:half]), zip(t, data.Bytes()[half:])...),
	} {
		t.Run(name, func(t *testing.T) {
			lines, long, err := readAll(t, writeLog(t, content))
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if fmt.Sprint(long) != "[701 2501 2502]" {
				t.Errorf("too long are %v", long)
			}
			for i, line := range want {
				if got := lines[int64(i+1)]; got != line && len(line) < MaxLine {
					t.Fatalf("line %d is %.40q, want %.40q", i+1, got, line)
				}
			}
			if len(lines) != len(want)-3 {
				t.Errorf("%d lines, want %d", len(lines), len(want)-3)
			}
		})
	}
}

// Of a file that is cut off, what is there is read.
func TestSourceCutOff(t *testing.T) {
	var data bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintln(&data, "line", i*i)
	}
	whole := zip(t, data.Bytes())
	lines, _, err := readAll(t, writeLog(t, whole[:len(whole)/2]))
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(lines) < 10_000 || lines[10_000] != "line 99980001" {
		t.Errorf("%d lines and %v", len(lines), err)
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
	if lines, _, err := readAll(t, writeLog(t, nil)); len(lines) > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%v and %v of an empty file", lines, err)
	}
}
