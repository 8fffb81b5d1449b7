package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Envoy returns the path of Envoy: the program in the environment variable ENVOY,
// or the program that `make tools` installed in the repository, or the program in
// PATH, in this order. Without Envoy, the test is skipped.
func Envoy(t testing.TB) string {
	t.Helper()
	if named := os.Getenv("ENVOY"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			t.Fatalf("the program that ENVOY names: %v", err)
		}
		return path
	}
	installed := filepath.Join(Repository(t), ".tools", "envoy", "bin", "envoy")
	if path, err := exec.LookPath(installed); err == nil {
		return path
	}
	return Program(t, "envoy")
}

// Repository returns the absolute path of the repository's root. It searches upwards
// from the working directory, which for a test is the directory of its package.
func Repository(t testing.TB) string {
	t.Helper()
	dir := Must(os.Getwd())(t)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("looking for the repository: no go.mod in any directory above this one")
		}
		dir = parent
	}
}

// Documents returns the paths of all documents of the repository.
func Documents(tb testing.TB) (files []string) {
	tb.Helper()
	root := Repository(tb)
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md", "examples/*.md", "examples/*/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			tb.Fatalf("no document is %s (error: %v)", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}
