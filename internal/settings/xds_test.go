package settings

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestXDS(t *testing.T) {
	type env = map[string]string
	headers := func(s Settings) any {
		values, err := s.XDS.HeaderValues()
		return fmt.Sprint(values, err)
	}
	expectSettings(t, []reading{
		{"files by default", nil, nil, func(s Settings) any { return s.XDS.Enabled() }, false},
		{"control plane", env{"CONFIG_TYPE": "grpc_xds_sotw"}, nil, func(s Settings) any { return s.XDS.Enabled() }, true},
		{"server by default", nil, nil, func(s Settings) any { return s.XDS.ServerURL }, "localhost:18000"},
		{"socket", env{"CONFIG_GRPC_XDS_SERVER_URL": "unix:/run/xds.sock"}, nil, func(s Settings) any { return s.XDS.ServerURL }, "unix:/run/xds.sock"},
		{"short target", env{"CONFIG_GRPC_XDS_SERVER_URL": "dns:cp:18000"}, nil, func(s Settings) any { return s.XDS.ServerURL }, "dns:cp:18000"},
		{"metadata", env{"CONFIG_GRPC_XDS_NODE_METADATA": "zone=a, team=x=y,empty=,"}, nil, func(s Settings) any {
			return maps.Equal(s.XDS.NodeMetadata, NodeMetadata{"zone": "a", "team": "x=y", "empty": ""})
		}, true},
		{"headers", env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "Authorization:Bearer a:b,x-team: y"}, nil, headers, "map[authorization:Bearer a:b x-team:y] <nil>"},
		{"back-off by default", nil, nil, func(s Settings) any { return fmt.Sprint(s.XDS.BackoffInitial, s.XDS.BackoffMax, s.XDS.BackoffSpread()) }, "10s 1m0s 0.5"},
		{"spread", env{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "0.25"}, nil, func(s Settings) any { return s.XDS.BackoffSpread() }, 0.25},
		{"no jitter by flag", nil, []string{"--xds-client-backoff-jitter=no"}, func(s Settings) any { return s.XDS.BackoffSpread() }, 0.0},
	})
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
