package descriptors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestLoadReportsEveryProblem compares the problems of each file and directory in testdata/bad
// with testdata/bad.txt, which -update writes.
func TestLoadReportsEveryProblem(t *testing.T) {
	const dir = "testdata/bad"
	entries := testenv.Must(os.ReadDir(dir))(t)
	var got strings.Builder
	for _, entry := range entries {
		files := readBelow(t, dir, filepath.Join(dir, entry.Name()))
		tree, err := Load(files, Options{MergeDomains: strings.HasPrefix(entry.Name(), "merged_")})
		if tree != nil || err == nil {
			t.Fatalf("%s: a bad file was loaded", entry.Name())
		}
		if !strings.HasPrefix(err.Error(), entry.Name()) {
			t.Errorf("%s is not named in %v", entry.Name(), err)
		}
		fmt.Fprintln(&got, err)
	}
	testenv.Golden(t, "testdata/bad.txt", got.String())
}
