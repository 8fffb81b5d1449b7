package settings

import (
	"slices"
	"strings"
	"testing"
)

func TestTLS(t *testing.T) {
	type env = map[string]string
	const (
		noCert = "--grpc-server-tls-cert ($GRPC_SERVER_TLS_CERT): a file is required because --grpc-server-use-tls ($GRPC_SERVER_USE_TLS) is on"
		noKey  = "--grpc-server-tls-key ($GRPC_SERVER_TLS_KEY): a file is required because --grpc-server-use-tls ($GRPC_SERVER_USE_TLS) is on"
		noCA   = `--grpc-client-tls-san ($GRPC_CLIENT_TLS_SAN): "envoy" can be checked only with --grpc-client-tls-cacert ($GRPC_CLIENT_TLS_CACERT)`
	)
	for _, test := range []struct {
		name   string
		env    env
		errors []string
		warned []string // variables
	}{
		{"off", nil, nil, nil},
		{"on", env{"GRPC_SERVER_USE_TLS": "1", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k"}, nil, nil},
		{"clients too", env{"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k", "GRPC_CLIENT_TLS_CACERT": "a", "GRPC_CLIENT_TLS_SAN": "envoy"}, nil, nil},
		{"nothing to show", env{"GRPC_SERVER_USE_TLS": "true"}, []string{noCert, noKey}, nil},
		{"no key", env{"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "c"}, []string{noKey}, nil},
		{"a name of nobody", env{"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k", "GRPC_CLIENT_TLS_SAN": "envoy"}, []string{noCA}, nil},
		{"files without TLS", env{"GRPC_SERVER_TLS_KEY": "k", "GRPC_CLIENT_TLS_CACERT": "a", "GRPC_CLIENT_TLS_SAN": "envoy"}, nil,
			[]string{"GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT", "GRPC_CLIENT_TLS_SAN"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := parse(t, test.env)
			if want := strings.Join(test.errors, "\n"); err == nil && want != "" || err != nil && err.Error() != want {
				t.Errorf("got error %v, want %s", err, want)
			}
			var warned []string
			for _, w := range s.Warnings {
				warned = append(warned, w.Variable)
				if !strings.Contains(w.Instead, "speaks no TLS") || w.Value != test.env[w.Variable] {
					t.Errorf("warning %+v", w)
				}
			}
			if !slices.Equal(warned, test.warned) {
				t.Errorf("warned of %v, want %v", warned, test.warned)
			}
		})
	}
}

// TestFlagsWithoutTLS are warned of as their variables are.
func TestFlagsWithoutTLS(t *testing.T) {
	byVariable, err := parse(t, map[string]string{"GRPC_SERVER_TLS_CERT": "c", "GRPC_CLIENT_TLS_SAN": "envoy"})
	if err != nil || len(byVariable.Warnings) != 2 {
		t.Fatalf("got %v, error: %v", byVariable.Warnings, err)
	}
	byFlag, err := parse(t, nil, "--grpc-server-tls-cert=c", "--grpc-client-tls-san=envoy")
	if err != nil || !slices.Equal(byFlag.Warnings, byVariable.Warnings) {
		t.Errorf("got %v, want %v, error: %v", byFlag.Warnings, byVariable.Warnings, err)
	}
}
