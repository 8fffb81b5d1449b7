package limittest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/testenv"
)

// Each YAML file in testdata/bad has its expected report in a text file beside it.
func TestLoadReportsEveryProblem(t *testing.T) {
	t.Chdir("testdata/bad")
	names, err := filepath.Glob("*.yaml")
	if err != nil || len(names) < 16 {
		t.Errorf("%d bad files, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			f, err := Load(name, Options{})
			var problems strictyaml.Problems
			if f != nil || !errors.As(err, &problems) {
				t.Fatalf("got %v, want Problems", err)
			}
			testenv.Golden(t, strings.TrimSuffix(name, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestLoadOfNoFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none_test.yaml"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
