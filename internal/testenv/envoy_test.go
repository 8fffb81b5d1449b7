package testenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

func TestEnvoyIsTheOneThatIsNamed(t *testing.T) {
	named := filepath.Join(t.TempDir(), "my-envoy")
	if err := os.WriteFile(named, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENVOY", named)
	if got := testenv.Envoy(t); got != named {
		t.Errorf("got %s, want %s", got, named)
	}
}

func TestEnvoyRuns(t *testing.T) {
	version, err := exec.Command(testenv.Envoy(t), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(version), "version") {
		t.Errorf("envoy --version: %v\n%s", err, version)
	}
}
