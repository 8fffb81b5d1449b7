package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/testenv"
)

// gateway describes the differences between the Envoy of a test and the Envoy of an example.
// The texts are YAML of Envoy's configuration.
type gateway struct {
	example     string            // path of the bootstrap, by default examples/envoy/envoy.yaml
	edit        *strings.Replacer // changes the text of the bootstrap
	cluster     string            // fields of Weir's cluster
	rateLimit   string            // fields of the first filter
	filters     string            // list of HTTP filters in front of the first filter
	virtualHost string            // fields of a virtual host that replaces the example's
	manager     string            // further fields of the HTTP connection manager
	http2       bool              // the upstream speaks HTTP/2, as for gRPC
	upstream    string            // host:port, by default an upstream that answers with the URL
	memory      bool              // Weir counts in memory, not in Redis
}

// patient are fields of the rate-limit filter in all tests that do not set them. No decision
// is too late on a busy machine, and no failed decision goes unnoticed.
var patient = map[string]any{"timeout": "60s", "failure_mode_deny": true}

// bootstrap returns the configuration of Envoy for servers at the addresses in weirs.
func (g gateway) bootstrap(t *testing.T, weirs ...string) map[string]any {
	t.Helper()
	if g.example == "" {
		g.example = "examples/envoy/envoy.yaml"
	}
	if g.upstream == "" {
		g.upstream = serve(t, echo)
	}
	text := readDocument(t, g.example)
	if g.edit != nil {
		text = g.edit.Replace(text)
	}
	doc := map[string]any{}
	parse(t, text, &doc)
	setUpstreams(t, doc, weirs, []string{g.upstream})
	cluster := get(t, doc, "static_resources", "clusters", 0)
	parse(t, g.cluster, &cluster)

	manager := connectionManager(t, doc)
	parse(t, g.manager, &manager)
	filters := manager["http_filters"].([]any)
	for _, filter := range filters {
		if config := get(t, filter, "typed_config"); config["rate_limit_service"] != nil {
			maps.Copy(config, patient)
		}
	}
	first := get(t, filters[0], "typed_config")
	parse(t, g.rateLimit, &first)
	var before []any
	parse(t, g.filters, &before)
	manager["http_filters"] = append(before, filters...)

	if g.virtualHost != "" {
		host := map[string]any{"name": "all", "domains": []string{"*"}}
		parse(t, g.virtualHost, &host)
		get(t, manager, "route_config")["virtual_hosts"] = []any{host}
	}
	if g.http2 {
		const options = "typed_extension_protocol_options"
		get(t, doc, "static_resources", "clusters", 1)[options] = cluster[options]
	}
	return doc
}

// envoy is a running Envoy.
type envoy struct {
	*process
	addr, admin string       // host:port of the listener and of the admin port
	client      *http.Client // sends the requests of ask and want
}

// runEnvoy runs Envoy on ports that the system chooses, and waits until it serves.
func runEnvoy(t *testing.T, doc map[string]any) *envoy {
	t.Helper()
	for _, listener := range []any{get(t, doc, "admin"), get(t, doc, "static_resources", "listeners", 0)} {
		get(t, listener)["address"] = address(t, "127.0.0.1:0")
	}
	dir := t.TempDir()
	adminFile := filepath.Join(dir, "admin")
	e := &envoy{process: run(t, dir, nil, testenv.Envoy(t), "-c", writeBootstrap(t, doc), "--admin-address-path", adminFile,
		"--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn", "--file-flush-interval-msec", "10"), client: client}
	testenv.Eventually(t, func() error {
		testenv.OK(t, e.ended())
		admin, err := os.ReadFile(adminFile)
		if err != nil {
			return err
		}
		e.admin = strings.TrimSpace(string(admin))
		answer, err := fetch("http://" + e.admin + "/listeners")
		if err != nil {
			return err
		}
		listening, _, isOne := strings.Cut(answer.body, "\n") // a line is a name and an address
		_, e.addr, _ = strings.Cut(listening, "::")
		if !isOne || strings.HasSuffix(e.addr, ":0") {
			return fmt.Errorf("it listens at %q", answer.body)
		}
		// Envoy reports the address before it accepts connections.
		answer, err = fetch("http://" + e.admin + "/stats?filter=workers_started")
		if err == nil && !strings.Contains(answer.body, "workers_started: 1\n") {
			err = errors.New(answer.body)
		}
		return err
	})
	return e
}

// stat returns a statistic of Envoy.
func (e *envoy) stat(name string) int {
	e.t.Helper()
	a := testenv.Must(fetch("http://" + e.admin + "/stats?filter=^" + name + "$"))(e.t)
	return testenv.Must(strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(a.body, name+": "))))(e.t)
}

// connectionManager returns the configuration of the only HTTP connection manager.
func connectionManager(t *testing.T, doc map[string]any) map[string]any {
	t.Helper()
	return get(t, doc, "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config")
}

// setUpstreams sets the addresses of the clusters: Weir first, then the upstream. It also sets
// a long connect timeout, because connections with TLS take long on a busy machine.
func setUpstreams(t *testing.T, doc map[string]any, clusters ...[]string) {
	t.Helper()
	for i, addrs := range clusters {
		var endpoints []any
		for _, addr := range addrs {
			endpoints = append(endpoints, map[string]any{"endpoint": map[string]any{"address": address(t, addr)}})
		}
		cluster := get(t, doc, "static_resources", "clusters", i)
		cluster["connect_timeout"] = patient["timeout"]
		get(t, cluster, "load_assignment", "endpoints", 0)["lb_endpoints"] = endpoints
	}
}

// writeBootstrap writes a bootstrap into a file and returns its path.
func writeBootstrap(t *testing.T, doc map[string]any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	testenv.Write(t, file, string(testenv.Must(yaml.Marshal(doc))(t)))
	return file
}

// parse decodes YAML into the value that into points to. Maps keep their other keys.
func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// get returns the mapping at path, a list of names and indices, in a YAML document.
func get(t *testing.T, node any, path ...any) map[string]any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := node.(map[string]any)
			node = m[step]
		case int:
			s, _ := node.([]any)
			if step >= len(s) {
				t.Fatalf("no item %d in %v", step, path)
			}
			node = s[step]
		}
	}
	m, ok := node.(map[string]any)
	if !ok {
		t.Fatalf("no mapping at %v", path)
	}
	return m
}

// address returns an address in the form of Envoy's configuration.
func address(t *testing.T, addr string) map[string]any {
	t.Helper()
	if path, unix := strings.CutPrefix(addr, "unix:"); unix {
		return map[string]any{"pipe": map[string]any{"path": path}}
	}
	resolved := testenv.Must(net.ResolveTCPAddr("tcp", addr))(t)
	return map[string]any{"socket_address": map[string]any{"address": resolved.IP.String(), "port_value": resolved.Port}}
}
