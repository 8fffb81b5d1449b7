package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestXDS(t *testing.T) {
	type env = map[string]string
	headers := func(x XDS) any {
		values, err := x.HeaderValues()
		return fmt.Sprint(values, err)
	}
	tests := []struct {
		name string
		env  env
		args []string
		get  func(XDS) any
		want any
	}{
		{"files by default", nil, nil, func(x XDS) any { return x.Enabled() }, false},
		{"files", env{"CONFIG_TYPE": "file"}, nil, func(x XDS) any { return x.Enabled() }, false},
		{"control plane", env{"CONFIG_TYPE": "grpc_xds_sotw"}, nil, func(x XDS) any { return x.Enabled() }, true},
		{"server by default", nil, nil, func(x XDS) any { return x.ServerURL }, Target("localhost:18000")},
		{"server", env{"CONFIG_GRPC_XDS_SERVER_URL": "[::1]:18001"}, nil, func(x XDS) any { return x.ServerURL }, Target("[::1]:18001")},
		{"socket", env{"CONFIG_GRPC_XDS_SERVER_URL": "unix:/run/xds.sock"}, nil, func(x XDS) any { return x.ServerURL }, Target("unix:/run/xds.sock")},
		{"target", env{"CONFIG_GRPC_XDS_SERVER_URL": "dns:///cp:18000"}, nil, func(x XDS) any { return x.ServerURL }, Target("dns:///cp:18000")},
		{"short target", env{"CONFIG_GRPC_XDS_SERVER_URL": "dns:cp:18000"}, nil, func(x XDS) any { return x.ServerURL }, Target("dns:cp:18000")},
		{"half a certificate of files", env{"CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": "key.pem"}, nil, func(x XDS) any { return x.Enabled() }, false},
		{"node by default", nil, nil, func(x XDS) any { return x.NodeID }, "default"},
		{"metadata", env{"CONFIG_GRPC_XDS_NODE_METADATA": "zone=a, team=x=y,empty=,"}, nil, func(x XDS) any {
			return maps.Equal(x.NodeMetadata, NodeMetadata{"zone": "a", "team": "x=y", "empty": ""})
		}, true},
		{"no metadata", env{"CONFIG_GRPC_XDS_NODE_METADATA": ""}, nil, func(x XDS) any { return len(x.NodeMetadata) }, 0},
		{"headers", env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "Authorization:Bearer a:b,x-team: y"}, nil, headers, "map[authorization:Bearer a:b x-team: y] <nil>"},
		{"no headers", nil, nil, headers, "map[] <nil>"},
		{"retry by default", nil, nil, func(x XDS) any { return x.RetryInterval }, 3 * time.Second},
		{"back-off by default", nil, nil, func(x XDS) any { return fmt.Sprint(x.BackoffInitial, x.BackoffMax, x.BackoffSpread()) }, "10s 1m0s 0.5"},
		{"spread", env{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "0.25"}, nil, func(x XDS) any { return x.BackoffSpread() }, 0.25},
		{"no jitter", env{"XDS_CLIENT_BACKOFF_JITTER": "false"}, nil, func(x XDS) any { return x.BackoffSpread() }, 0.0},
		{"no jitter by flag", nil, []string{"--xds-client-backoff-jitter=no"}, func(x XDS) any { return x.BackoffSpread() }, 0.0},
		{"size by default", nil, nil, func(x XDS) any { return x.MaxMessageSize }, 4 << 20},
		{"half a certificate without TLS", env{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT": "a.pem"}, nil, func(x XDS) any { return x.UseTLS }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse(t, tt.env, tt.args...)
			must(t, err)
			if got := tt.get(s.XDS); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestXDSWithoutTLS(t *testing.T) {
	files := map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": "ca.pem", "CONFIG_GRPC_XDS_SERVER_TLS_SAN": "cp"}
	s, err := parse(t, files)
	if err != nil || len(s.Warnings) != 2 || s.Warnings[0].Variable != "CONFIG_GRPC_XDS_SERVER_TLS_CACERT" || s.Warnings[0].Value != "ca.pem" {
		t.Errorf("got %v, error: %v", s.Warnings, err)
	}
	byFlag, err := parse(t, nil, "--config-type=GRPC_XDS_SOTW", "--config-grpc-xds-server-tls-cacert=ca.pem", "--config-grpc-xds-server-tls-san=cp")
	if err != nil || !slices.Equal(byFlag.Warnings, s.Warnings) {
		t.Errorf("by flags: got %v, want %v, error: %v", byFlag.Warnings, s.Warnings, err)
	}
	files["CONFIG_GRPC_XDS_SERVER_USE_TLS"] = "true"
	if s, err := parse(t, files); err != nil || len(s.Warnings) != 0 {
		t.Errorf("with TLS: got %v, error: %v", s.Warnings, err)
	}
}

// TestHeadersShowNowhere holds headers to be secrets: they carry tokens.
func TestHeadersShowNowhere(t *testing.T) {
	for _, value := range []string{"authorization:swordfish", "authorization:swordfish\u00fc", "swordfish"} {
		s, err := parse(t, map[string]string{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": value})
		if text := fmt.Sprintf("%v %+v %#v %v", s, s, s, err); strings.Contains(text, "swordfish") {
			t.Errorf("shows the header: %s", text)
		}
	}
}
