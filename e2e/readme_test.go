package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

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
			out, err := exec.Command(shell, "-c", command).CombinedOutput()
			if want := strings.Repeat("200\n", 5) + "429\n"; err != nil || string(out) != want {
				t.Errorf("%v, printed:\n%s\nwant:\n%s", err, out, want)
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
