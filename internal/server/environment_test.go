package server

import (
	"io"
	"path/filepath"
	"testing"

	"weir/internal/testenv"
)

// TestEnvironmentsOfTheReference starts with variables that envoyproxy/ratelimit
// starts with, one of its less usual environments after the other.
func TestEnvironmentsOfTheReference(t *testing.T) {
	authority := testenv.NewAuthority(t)
	certificate, _ := authority.Issue(t, "weir")
	cert := filepath.Join(t.TempDir(), "crt")
	write(t, cert, string(certificate))
	type env map[string]string
	for _, test := range []struct {
		name string
		env  env
	}{
		{"connections without an end", env{"GRPC_MAX_CONNECTION_AGE": "0", "GRPC_MAX_CONNECTION_AGE_GRACE": "0s"}},
		{"short back-off of a control plane", env{"CONFIG_TYPE": "GRPC_XDS_SOTW", "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "5s"}},
		{"control plane by name", env{"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "dns:cp:18000"}},
		{"half a certificate that is not used", env{"REDIS_URL": "h:6379", "REDIS_TLS": "false", "REDIS_TLS_CLIENT_CERT": cert}},
		{"debug listener on IPv4 and IPv6", env{"DEBUG_HOST": "[::]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for variable, value := range test.env {
				t.Setenv(variable, value)
			}
			args := []string{"--config=" + directory(t, limited(3))}
			if host := test.env["DEBUG_HOST"]; host != "" {
				args = append(args, "--debug-host="+host)
			}
			app := testenv.Must(New(options(t, io.Discard, args...)))(t)
			if err := app.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
