package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"weir/internal/testenv"
)

// The rules come from a control plane: what it sends serves at once, what is bad
// is refused and changes nothing, and the stream does not hold up the end.
func TestRulesFromControlPlane(t *testing.T) {
	t.Parallel()
	plane := testenv.StartControlPlane(t)
	set := func(version, unit string, amount int) {
		plane.SetFor("weir", version, fmt.Sprintf(`{"name": "x", "domain": "api", "descriptors": [{"key": "user", "rate_limit": {"unit": %q, "requests_per_unit": %d}}]}`, unit, amount))
	}
	set("1", "YEAR", 3)
	command := documentedBlock(t, "docs/xds.md", "CONFIG_TYPE=GRPC_XDS_SOTW")
	w := runWeir(t, append(withProgram(t), "CONFIG_GRPC_XDS_NODE_METADATA=zone=a",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization:swordfish", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=100ms",
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=100ms", "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=10m",
	), testenv.Shell(t), "-c", strings.ReplaceAll(command, "control-plane:18000", plane.Addr))
	w.waitUntilHealthy()
	admits := func(want uint32) { w.waitForRemaining(want, "api", "user", "alice") }
	admits(3)
	if got := plane.Requests()[0].GetNode().GetId(); got != "weir" {
		t.Errorf("the node is %q", got)
	}
	if got := plane.Requests()[0].GetNode().GetMetadata().GetFields()["zone"].GetStringValue(); got != "a" {
		t.Errorf("the zone of the node is %q", got)
	}
	set("2", "YEAR", 5)
	admits(5)

	set("3", "UNKNOWN", 9)
	refusal := plane.WaitFor("that refuses", func(r *discovery.DiscoveryRequest) bool { return r.GetErrorDetail() != nil })
	if got := refusal.GetErrorDetail().GetMessage(); !strings.HasPrefix(got, `resource "x": descriptors[0].rate_limit.unit: a unit is required`) {
		t.Errorf("refused because of %q", got)
	}
	w.waitForMetric("ratelimit_service_config_load_error 1")
	admits(5)

	plane.Stop()
	w.waitForMetric("weir_xds_connected 0")
	admits(5)
	plane.Start()
	set("1", "YEAR", 7)
	admits(7)

	w.signal(syscall.SIGTERM)
	w.wantExit(0)
	if strings.Contains(w.output.String(), "swordfish") {
		t.Error("the log shows a header to the control plane")
	}
}

// Without its control plane a server starts, lets nobody believe that it has rules, and
// ends when it is told to.
func TestStartWithoutControlPlane(t *testing.T) {
	t.Parallel()
	w := runWeir(t, []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:1", "DRAIN_DELAY=0s"}, program(t))
	w.output.WaitFor(t, "connection refused")
	w.waitForHealth(500, "")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}

// The control plane of the example changes the rules of a running Weir, and bad rules
// change nothing, however fast the commands follow each other.
func TestXDSExampleReadme(t *testing.T) {
	t.Parallel()
	const readme, rules = "examples/xds/README.md", "examples/xds/rules.json"
	shell := testenv.Shell(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.json") // the walk changes it
	original := readDocument(t, rules)
	write(t, file, original)
	var plane string
	var server *weir
	walk{
		starts: map[string]func(command string){
			"go run ./examples/xds/controlplane": func(command string) {
				plane = startExampleUpstream(t, shell, command+" -listen 127.0.0.1:0 -rules "+file)
			},
			"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:18000 CONFIG_GRPC_XDS_NODE_ID=weir go run ./cmd/server": func(command string) {
				compile(t, shell, command)
				server = runWeir(t, nil, shell, "-c", strings.ReplaceAll(command, "127.0.0.1:18000", plane))
				server.waitUntilHealthy()
			},
		},
		addrs: func() *strings.Replacer {
			return strings.NewReplacer("127.0.0.1:8080", server.http, "127.0.0.1:9090", server.metrics, rules, file)
		},
	}.through(t, readme)

	// The repaired rules are sent, although Weir has had them before.
	testenv.Eventually(t, func() error {
		page, err := fetch("http://" + server.debug + "/status")
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
	listed := 0
	for _, dir := range testenv.Must(os.ReadDir(root))(t) {
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
