package loadgen

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
)

// Whoever cannot connect is told why, whatever gRPC calls it.
func TestNoConnection(t *testing.T) {
	for server, want := range map[string]string{
		"unix:" + t.TempDir() + "/none":  "no connection: connection error: desc = \"transport: Error while dialing: dial unix ",
		"passthrough:///127.0.0.1:99999": "invalid port",
	} {
		opts := closed(server)
		if _, err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", server, err, want)
		}
	}
	for why, want := range map[string]string{
		"name resolver error: produced zero addresses":                           "the host is unknown: ",
		"error reading server preface: EOF":                                      "it is no gRPC server, or one with TLS: ",
		"handshake failed: tls: first record does not look like a TLS handshake": "it does not speak TLS: ",
		"error reading server preface: remote error: tls: certificate required":  "it refuses this client: ",
		"connection refused": "connection refused",
	} {
		if got := plain(why); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, why) {
			t.Errorf("%s is told as %q, want %s", why, got, want)
		}
	}
}

// An address that gRPC would read in a way of its own is told before it is asked.
func TestAddresses(t *testing.T) {
	const expected = "; expected is host:port such as 127.0.0.1:8081 or [::1]:8081, or unix:PATH"
	for server, want := range map[string]string{
		"localhost:8081":     "",
		":8081":              "",
		"[::1]:8081":         "",
		"unix:weir.sock":     "",
		"unix:///run/socket": "",
		"dns:///weir:8081":   "",
		"":                   "missing port in address" + expected,
		"localhost":          "missing port in address" + expected,
		"localhost:":         "missing port in address" + expected,
		"::1":                "too many colons in address" + expected,
		"[::1]":              "missing port in address" + expected,
		"http://host:8081":   "too many colons in address" + expected,
		"host:0":             `"0" is not a port, allowed are 1 to 65535` + expected,
		"host:65536":         `"65536" is not a port, allowed are 1 to 65535` + expected,
		"host:grpc":          `"grpc" is not a port, allowed are 1 to 65535` + expected,
	} {
		opts := closed(server)
		err := opts.check()
		if want != "" {
			want = fmt.Sprintf("server %q: %s", server, want)
		}
		if fmt.Sprint(err) != cmp.Or(want, "<nil>") {
			t.Errorf("%q: got %v, want %s", server, err, want)
		}
	}
}

// Whoever is interrupted while connecting is told that, not what became of a context.
func TestInterruptedWhileConnecting(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := Run(ctx, closed("127.0.0.1:1"))
	if want := `server "127.0.0.1:1": interrupted while connecting`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
