package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/testenv"
)

// envoy is a running Envoy.
type envoy struct {
	*process
	addr, admin string // where it serves and where it is asked about itself, host:port
}

// startEnvoy starts Envoy with the bootstrap of examples/envoy as it is, except
// for the addresses and for the given fields of its rate-limit filter.
func startEnvoy(t *testing.T, weirAddr, upstreamAddr string, filter map[string]any) *envoy {
	t.Helper()
	doc := exampleBootstrap(t)
	setUpstreams(t, doc, weirAddr, upstreamAddr)
	maps.Copy(get(t, connectionManager(t, doc), "http_filters", 0, "typed_config"), filter)
	return runEnvoy(t, doc)
}

// startPatientEnvoy starts Envoy with the bootstrap of examples/envoy and the
// filter as patient has it. edit changes the cluster of Weir.
func startPatientEnvoy(t *testing.T, edit func(cluster map[string]any)) *envoy {
	t.Helper()
	doc := exampleBootstrap(t)
	upstream := startUpstream(t)
	setUpstreams(t, doc, upstream, upstream)
	maps.Copy(get(t, connectionManager(t, doc), "http_filters", 0, "typed_config"), patient)
	edit(get(t, doc, "static_resources", "clusters", 0))
	return runEnvoy(t, doc)
}

// makePatient makes the rate-limit filters of an example as patient has them.
func makePatient(t *testing.T, doc map[string]any) {
	t.Helper()
	for _, filter := range connectionManager(t, doc)["http_filters"].([]any) {
		if config := get(t, filter, "typed_config"); config["rate_limit_service"] != nil {
			maps.Copy(config, patient)
		}
	}
}

// runEnvoy runs Envoy with a bootstrap, on ports of the system, and waits until
// it serves.
func runEnvoy(t *testing.T, doc map[string]any) *envoy {
	t.Helper()
	setAddr(t, get(t, doc, "admin"), "127.0.0.1:0")
	setAddr(t, get(t, doc, "static_resources", "listeners", 0), "127.0.0.1:0")
	dir := t.TempDir()
	adminFile := filepath.Join(dir, "admin")
	e := &envoy{process: run(t, dir, nil, testenv.Envoy(t), "-c", writeBootstrap(t, doc), "--admin-address-path", adminFile,
		"--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn", "--file-flush-interval-msec", "10")}

	testenv.Eventually(t, func() error {
		testenv.OK(t, e.ended())
		admin, err := os.ReadFile(adminFile)
		if err != nil {
			return err
		}
		e.admin = strings.TrimSpace(string(admin))
		answer, err := fetch("http://" + e.admin + "/listeners?format=json")
		if err != nil {
			return err
		}
		if e.addr, err = listenerAddr(answer.body); err != nil {
			return err
		}
		// It has the address before it takes connections.
		answer, err = fetch("http://" + e.admin + "/stats?filter=workers_started")
		if err == nil && !strings.Contains(answer.body, "workers_started: 1\n") {
			err = errors.New(answer.body)
		}
		return err
	})
	return e
}

// exampleBootstrap reads the bootstrap that most tests use.
func exampleBootstrap(t *testing.T) map[string]any {
	t.Helper()
	return readBootstrap(t, "examples/envoy/envoy.yaml")
}

// readBootstrap reads a file of the repository.
func readBootstrap(t *testing.T, file string) map[string]any {
	t.Helper()
	data := testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(t), file)))(t)
	var doc map[string]any
	testenv.OK(t, yaml.Unmarshal(data, &doc))
	return doc
}

// connectionManager is the configuration of the only HTTP connection manager.
func connectionManager(t *testing.T, doc map[string]any) map[string]any {
	t.Helper()
	return get(t, doc, "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config")
}

// setUpstreams changes the addresses of the clusters: Weir, then the upstream. No
// connection to them takes too long, which those with TLS might on a busy machine.
func setUpstreams(t *testing.T, doc map[string]any, addrs ...string) {
	t.Helper()
	for i, addr := range addrs {
		cluster := get(t, doc, "static_resources", "clusters", i)
		setAddr(t, get(t, cluster, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint"), addr)
		cluster["connect_timeout"] = patient["timeout"]
	}
}

// writeBootstrap writes a bootstrap into a file and returns its path.
func writeBootstrap(t *testing.T, doc map[string]any) string {
	t.Helper()
	data := testenv.Must(yaml.Marshal(doc))(t)
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	testenv.OK(t, os.WriteFile(file, data, 0o600))
	return file
}

// get follows path, of names and indices, down a YAML document to a mapping.
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

// setAddr changes the address that holder holds, in Envoy's form.
func setAddr(t *testing.T, holder map[string]any, addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number := testenv.Must(strconv.Atoi(port))(t)
	socket := get(t, holder, "address", "socket_address")
	socket["address"], socket["port_value"] = host, number
}

// listenerAddr reads the address of the only listener from what Envoy's admin
// interface says about its listeners.
func listenerAddr(answer string) (string, error) {
	var listeners struct {
		Statuses []struct {
			LocalAddress struct {
				SocketAddress struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(answer), &listeners); err != nil {
		return "", fmt.Errorf("reading the listeners of Envoy: %w", err)
	}
	if len(listeners.Statuses) != 1 {
		return "", errors.New("Envoy does not listen yet")
	}
	a := listeners.Statuses[0].LocalAddress.SocketAddress
	return net.JoinHostPort(a.Address, strconv.Itoa(a.Port)), nil
}
