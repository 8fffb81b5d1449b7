package bench

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// An error says why there is no connection, whatever gRPC calls it.
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

// The error of an interrupt while connecting says so, and nothing of a context.
func TestInterruptedWhileConnecting(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := Run(ctx, closed("127.0.0.1:1"))
	if want := `server "127.0.0.1:1": interrupted while connecting`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What is wanted of an answer is found wherever it stands in it.
func TestReply(t *testing.T) {
	encoded := func(code ratelimitv3.RateLimitResponse_Code, statuses ...*ratelimitv3.RateLimitResponse_DescriptorStatus) string {
		b, err := proto.Marshal(&ratelimitv3.RateLimitResponse{OverallCode: code, Statuses: statuses})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	free := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ok, LimitRemaining: 9, DurationUntilReset: durationpb.New(1)}
	limited := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: over, CurrentLimit: new(ratelimitv3.RateLimitResponse_RateLimit)}
	const otherFields = "\x1a\x00\x25abcd\x10\x07" // headers, a field that there is not, and statuses of another type
	for answer, want := range map[string]reply{
		encoded(ok):                                {ok, false},
		encoded(over):                              {over, false},
		encoded(ok, free, free):                    {ok, false},
		encoded(ok, limited):                       {ok, true},
		encoded(over, free, limited, free):         {over, true},
		encoded(0, limited) + encoded(over):        {over, true},
		encoded(0, free) + encoded(over):           {over, false},
		otherFields + encoded(over, free, limited): {over, true},
		encoded(ok, free) + otherFields:            {ok, false},
		encoded(ok, free) + "\x12\x7f":             {ok, false}, // cut off
		encoded(ok) + "\x12\x02\x12\x7f":           {ok, false}, // cut off within the status
	} {
		if got, err := readReply([]byte(answer)); got != want || err != nil {
			t.Errorf("% x: got %v, %v, want %v", answer, got, err, want)
		}
	}
	for _, answer := range []string{"", encoded(0, free), encoded(0, limited), "\x08", "\xff", "\x08\x07"} {
		if _, err := readReply([]byte(answer)); err == nil {
			t.Errorf("% x: got no error", answer)
		}
	}
}
