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

// envoy is a running Envoy with the bootstrap of examples/envoy.
type envoy struct {
	*process
	addr string // where it serves, host:port
}

// startEnvoy starts Envoy with the bootstrap of examples/envoy as it is, except
// for the addresses and for the given fields of its rate-limit filter.
func startEnvoy(t *testing.T, weirAddr, upstreamAddr string, filter map[string]any) *envoy {
	t.Helper()
	program := testenv.Envoy(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "envoy.yaml")
	adminFile := filepath.Join(dir, "admin")
	if err := os.WriteFile(config, bootstrap(t, weirAddr, upstreamAddr, filter), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &envoy{process: run(t, dir, nil, program, "-c", config, "--admin-address-path", adminFile,
		"--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn")}

	eventually(t, "waiting for Envoy", func() error {
		if err := e.ended(); err != nil {
			t.Fatal(err)
		}
		admin, err := os.ReadFile(adminFile)
		if err != nil {
			return err
		}
		answer, err := fetch("http://" + strings.TrimSpace(string(admin)) + "/listeners?format=json")
		if err != nil {
			return err
		}
		e.addr, err = listenerAddr(answer.body)
		return err
	})
	return e
}

// bootstrap is examples/envoy/envoy.yaml, changed as startEnvoy says.
func bootstrap(t *testing.T, weirAddr, upstreamAddr string, filter map[string]any) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testenv.Repository(t), "examples/envoy/envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var b map[string]any
	if err := yaml.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	setAddr(t, get(t, b, "admin"), "127.0.0.1:0")
	listener := get(t, b, "static_resources", "listeners", 0)
	setAddr(t, listener, "127.0.0.1:0")
	setAddr(t, get(t, b, "static_resources", "clusters", 0, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint"), weirAddr)
	setAddr(t, get(t, b, "static_resources", "clusters", 1, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint"), upstreamAddr)
	maps.Copy(get(t, listener, "filter_chains", 0, "filters", 0, "typed_config", "http_filters", 0, "typed_config"), filter)

	data, err = yaml.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
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
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
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
