package server

import (
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestNoPageShowsASecret gives a server everything that is secret, with nobody at
// the places where it belongs, so that errors tell of them.
func TestNoPageShowsASecret(t *testing.T) {
	plane := testenv.StartControlPlane(t)
	plane.Set("v1", sent("x", 3))
	const nobody = "127.0.0.1:1"
	tests := []struct {
		name string
		args []string
	}{
		{"redis", []string{"--redis-url=redis://user:halibut@" + nobody, "--redis-auth=swordfish",
			"--redis-persecond", "--redis-persecond-url=redis://user:halibut@" + nobody, "--redis-persecond-auth=swordfish"}},
		{"sentinels", []string{"--redis-type=sentinel", "--redis-url=weir," + nobody, "--redis-auth=swordfish", "--redis-sentinel-auth=halibut",
			"--redis-persecond", "--redis-persecond-type=sentinel", "--redis-persecond-url=weir," + nobody,
			"--redis-persecond-auth=swordfish", "--redis-persecond-sentinel-auth=halibut"}},
		{"headers to the control plane", fromControlPlane(plane, "--config-grpc-xds-client-additional-headers=authorization:swordfish,x-key:halibut")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, append([]string{"--log-level=debug", "--config=" + directory(t, limited(3))}, tt.args...)...)
			f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 200, "api.user: ")
			_, _ = f.ask(t.Context(), "alice") // fails where there is no Redis
			for _, path := range []string{"/", "/rlconfig", "/stats", "/debug/pprof/goroutine?debug=2"} {
				code, page, err := f.request("GET", f.debug.addr(), path, "")
				if err != nil || code != 200 || strings.Contains(page, "swordfish") || strings.Contains(page, "halibut") {
					t.Errorf("%s shows a secret, or nothing: %d (error: %v)\n%s", path, code, err, page)
				}
			}
			if log := f.log.String(); log == "" || strings.Contains(log, "swordfish") || strings.Contains(log, "halibut") {
				t.Errorf("the log shows a secret, or nothing:\n%s", log)
			}
		})
	}
}
