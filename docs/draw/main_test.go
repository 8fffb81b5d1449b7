package main

import (
	"bytes"
	"os"
	"testing"

	"weir/internal/testenv"
)

// The files in docs/ are up to date.
func TestDocumentsAreCurrent(t *testing.T) {
	files := draw("..")
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what Weir does, run: make docs", name)
		}
	}
	testenv.Equal(t, len(files), 10, "files, which are nine pictures and the document")
}

func TestDocumentWithoutPlaceForATable(t *testing.T) {
	for _, text := range []string{"", "<!-- walk: fixed_window -->\n"} {
		if _, err := withWalks([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
