package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// The control plane of the example changes the rules of a running Weir, and bad rules
// change nothing, however fast the commands follow each other.
func TestXDSExampleReadme(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			t.Parallel()
			walkXDSExample(t, pause)
		})
	}
}

func walkXDSExample(t *testing.T, pause time.Duration) {
	t.Helper()
	const readme, rules = "examples/xds/README.md", "examples/xds/rules.json"
	shell := testenv.Shell(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.json") // the walk changes it
	original := readDocument(t, filepath.Join(testenv.Repository(t), rules))
	write(t, file, original)
	var plane string
	var weirProcess *weir
	walk{
		starts: map[string]func(command string){
			"go run ./examples/xds/controlplane": func(command string) {
				plane = startExampleUpstream(t, shell, command+" -listen 127.0.0.1:0 -rules "+file)
			},
			"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:18000 CONFIG_GRPC_XDS_NODE_ID=weir go run ./cmd/server": func(command string) {
				compile(t, shell, command)
				weirProcess = runWeir(t, nil, shell, "-c", strings.ReplaceAll(command, "127.0.0.1:18000", plane))
				weirProcess.waitUntilHealthy()
			},
		},
		addrs: func() *strings.Replacer {
			return strings.NewReplacer("127.0.0.1:8080", weirProcess.http, "127.0.0.1:9090", weirProcess.metrics, rules, file)
		},
		pause: pause,
	}.through(t, readme)

	// The repaired rules are sent, although Weir has had them before.
	testenv.Eventually(t, func() error {
		page, err := fetch("http://" + weirProcess.debug + "/status")
		if err == nil && strings.Contains(page.body, `"failed_at"`) {
			err = errors.New("the last load still failed: " + page.body)
		}
		return err
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || readDocument(t, file) != original {
		t.Errorf("the walk leaves %v (error: %v), want the rules as they were:\n%s", left, err, readDocument(t, file))
	}
}

// The index of the examples has all of them, and nothing else.
func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	root := filepath.Join(testenv.Repository(t), "examples")
	index := readDocument(t, filepath.Join(root, "README.md"))
	dirs := testenv.Must(os.ReadDir(root))(t)
	listed := 0
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		listed++
		link := "](" + dir.Name() + "/README.md)"
		if _, err := os.Stat(filepath.Join(root, dir.Name(), "README.md")); err != nil {
			link = "](" + dir.Name() + "/)"
		}
		if !strings.Contains(index, link) {
			t.Errorf("examples/README.md does not link to %s", dir.Name())
		}
	}
	if got := strings.Count(index, "]("); got != listed {
		t.Errorf("examples/README.md has %d links, want %d", got, listed)
	}
}
