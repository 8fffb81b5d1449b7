package loadgen

import (
	"context"
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
		"name resolver error: produced zero addresses": "the host is unknown: ",
		"error reading server preface: EOF":            "it is no gRPC server without TLS: ",
		"connection refused":                           "connection refused",
	} {
		if got := plain(why); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, why) {
			t.Errorf("%s is told as %q, want %s", why, got, want)
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
