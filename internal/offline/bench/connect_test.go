package bench

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// The error says why there is no connection.
func TestNoConnection(t *testing.T) {
	for server, want := range map[string]string{
		"unix:" + t.TempDir() + "/none": "no connection: connection error: desc = \"transport: Error while dialing: dial unix ",
		"127.0.0.1:99999":               "invalid port",
	} {
		opts := closed(server)
		_, err := Run(t.Context(), opts)
		testenv.Contains(t, fmt.Sprint(err), want)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := Run(ctx, closed("127.0.0.1:1"))
	testenv.Equal(t, fmt.Sprint(err), `server "127.0.0.1:1": no connection: context canceled`, "error")
}

// Addresses that gRPC would interpret differently are refused, as are invalid options.
func TestBadOptions(t *testing.T) {
	for server, want := range map[string]string{
		"localhost:8081": "", "[::1]:8081": "", "unix:weir.sock": "", "unix:///run/socket": "",
		"":                 "missing port in address",
		"localhost":        "address localhost: missing port in address: expected is host:port such as 127.0.0.1:8081 or [::1]:8081, or unix:PATH",
		"http://host:8081": "too many colons in address",
	} {
		opts := closed(server)
		if err := opts.check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", server, err, want)
		}
	}
	for want, change := range map[string]func(*Options){
		"server: 0 is not allowed; use one or more":                                                func(o *Options) { o.Servers = nil },
		"--connections: 2 is not allowed; use one for each server, 3 or more":                      func(o *Options) { o.Servers = []string{"a:1", "b:1", "c:1"} },
		"--callers: 1 is not allowed; use one for each server, 2 or more":                          func(o *Options) { o.Servers, o.Callers = []string{"a:1", "b:1"}, 1 },
		"--requests: 1 is not allowed; use one for each server, 2 or more, or 0 for any number":    func(o *Options) { o.Servers, o.Requests = []string{"a:1", "b:1"}, 1 },
		"--rate: NaN is not allowed; use up to 10000000 requests a second, or 0 for a closed loop": func(o *Options) { o.Rate = math.NaN() },
		"--timeout: -1ns is not allowed; use 0 for none, or more":                                  func(o *Options) { o.Timeout = -1 },
		"--duration: 0s is not allowed; use more than 0":                                           func(o *Options) { o.Duration = 0 },
		"--warmup: 1m0s is not allowed; use 0 or more and less than the duration of 1m0s":          func(o *Options) { o.Warmup = o.Duration },
		"--descriptor: 0 is not allowed; use one or more":                                          func(o *Options) { o.Descriptors = nil },
		"--keys: 0 is not allowed; use 1 or more":                                                  func(o *Options) { o.Keys = 0 },
	} {
		opts := closed("127.0.0.1:1")
		change(&opts)
		testenv.Equal(t, fmt.Sprint(opts.check()), want, "error")
	}
}
