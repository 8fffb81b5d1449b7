package testenv

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
)

// Read returns the content of a file.
func Read(tb testing.TB, file string) string {
	tb.Helper()
	return string(Must(os.ReadFile(file))(tb))
}

// ReadAll returns the contents of the files that match patterns, at least one for each.
func ReadAll(tb testing.TB, patterns ...string) (contents [][]byte) {
	tb.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			tb.Fatalf("%s: %d files, error %v", pattern, len(files), err)
		}
		for _, file := range files {
			contents = append(contents, []byte(Read(tb, file)))
		}
	}
	return contents
}

// Write writes a file and creates its parent directories.
func Write(tb testing.TB, file, text string) {
	tb.Helper()
	OK(tb, os.MkdirAll(filepath.Dir(file), 0o755))
	OK(tb, os.WriteFile(file, []byte(text), 0o644))
}

// File writes a file into a new directory and returns its path.
func File(tb testing.TB, name, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	Write(tb, file, text)
	return file
}

// Gzip compresses a text.
func Gzip(tb testing.TB, text string) string {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	Must(w.Write([]byte(text)))(tb)
	OK(tb, w.Close())
	return b.String()
}
