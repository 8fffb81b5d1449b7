package envoyconfig

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/testenv"
)

// managed returns a bootstrap whose connection manager has additional fields.
func managed(fields string) string {
	text := oneRoute("match: {prefix: /}, route: {cluster: c, rate_limits: [{actions: [{remote_address: {}}]}]}")
	return strings.Replace(text, "                http_filters:", fields+"                http_filters:", 1)
}

const (
	extension = "                original_ip_detection_extensions: [{name: x, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.http.original_ip_detection."
	gateway   = `kind: EnvoyFilter
spec:
  configPatches:
    - {applyTo: VIRTUAL_HOST, match: {context: GATEWAY}, patch: {operation: MERGE, value: {rate_limits: [{actions: [{remote_address: {}}]}]}}}
    - applyTo: NETWORK_FILTER
      match: {context: GATEWAY}
      patch: {operation: MERGE, value: {typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, xff_num_trusted_hops: 1}}}
`
)

// The client address is the one that a real Envoy uses; e2e tests more configurations. Connections are from 192.0.2.9.
func TestClient(t *testing.T) {
	for _, config := range []struct {
		name, text string
		first      map[string]string    // client by x-forwarded-for, as Envoy receives it
		logged     map[[2]string]string // client by x-forwarded-for and connection, as in the log
	}{
		{"mapping", mapping, map[string]string{"": "192.0.2.9", "7.7.7.7": "7.7.7.7", "1.1.1.1, 7.7.7.7": "7.7.7.7"}, map[[2]string]string{
			{"1.1.1.1,7.7.7.7", ""}: "7.7.7.7", {"1.1.1.1,7.7.7.7", "192.0.2.9"}: "7.7.7.7", {"bad", ""}: "", {"", "192.0.2.9"}: "192.0.2.9",
		}},
		{"connection", managed("                useRemoteAddress: true\n"), map[string]string{"": "192.0.2.9", "7.7.7.7": "192.0.2.9"}, map[[2]string]string{
			{"192.0.2.2", ""}: "192.0.2.2", {"7.7.7.7,192.0.2.2", ""}: "192.0.2.2", {"7.7.7.7,192.0.2.2", "127.0.0.1"}: "127.0.0.1", {"", "::1"}: "::1", {"", ""}: "",
		}},
		{"gateway", gateway, map[string]string{"": "192.0.2.9", "7.7.7.7": "7.7.7.7"}, map[[2]string]string{{"7.7.7.7,192.0.2.2", ""}: "7.7.7.7"}},
	} {
		t.Run(config.name, func(t *testing.T) {
			c := load(t, config.text, Options{Domain: "d"})
			if len(c.Notes) > 0 && config.name != "mapping" {
				t.Errorf("notes %q", c.Notes)
			}
			for forwarded, want := range config.first {
				var headers []Header
				for part := range strings.SplitSeq(forwarded, ",") {
					headers = append(headers, Header{"x-forwarded-for", part})
				}
				if forwarded == "" {
					headers = nil
				}
				testenv.Equal(t, c.Client(headers, "192.0.2.9"), want, "%q: client", forwarded)
			}
			for logged, want := range config.logged {
				testenv.Equal(t, c.LoggedClient(logged[0], logged[1]), want, "logged %q: client", logged)
			}
		})
	}
}

// If a dump is too large, its listeners and its routes can be two documents of one file.
func TestPartsOfDump(t *testing.T) {
	_, err := Load(make([]byte, strictyaml.MaxFileSize+1), "f.json", Options{})
	testenv.Equal(t, fmt.Sprint(err), "f.json: the file is too large, at most 16 MiB are allowed; of a dump you need only /config_dump?resource=dynamic_listeners and ?resource=dynamic_route_configs, in one file with a line --- between them", "error")
	c := load(t, readFile(t, "internal/offline/envoyconfig/testdata/parts_of_dump.yaml"), Options{})
	if got := lines(c.AppendDescriptors(nil, new(alice("/")))); len(got) != 1 || got[0] != "d remote_address=192.0.2.7" || c.Client([]Header{{"x-forwarded-for", "7.7.7.7, 192.0.2.2"}}, "") != "7.7.7.7" {
		t.Errorf("got %q", got)
	}
}

func TestWithoutPort(t *testing.T) {
	for address, want := range map[string]string{"10.0.0.1:80": "10.0.0.1", "10.0.0.1": "10.0.0.1", "[::1]:80": "[::1]", "[::1]": "[::1]", "2001:db8::1": "2001:db8::1", "": "", "host:x": "host:x"} {
		testenv.Equal(t, WithoutPort(address), want, "%q", address)
	}
}
