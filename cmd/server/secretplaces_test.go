package main

import (
	"os"
	"strings"
	"testing"
)

// TestNoSecretIsShownElsewhere writes a secret where none belongs.
func TestNoSecretIsShownElsewhere(t *testing.T) {
	dir := rules(t, "a.yaml", good)
	xds, traces := []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "FORCE_START_WITHOUT_INITIAL_CONFIG=true"}, []string{"TRACING_ENABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}
	for _, c := range []struct {
		name      string
		args, env []string
		want      string // in the log
	}{
		{"URL of a control plane", nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL=http://u:"+secret+"@127.0.0.1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{"control plane with a user", nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL="+secret+"@127.0.0.1:1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{"target with a password", nil, append(xds, "CONFIG_GRPC_XDS_SERVER_URL=dns:///u:"+secret+"@127.0.0.1:1"), "CONFIG_GRPC_XDS_SERVER_URL"},
		{"flag of a control plane", []string{"--config-grpc-xds-server-url=http://u:" + secret + "@127.0.0.1"}, xds, "--config-grpc-xds-server-url"},
		{"metadata of an xDS node", nil, append(xds, "CONFIG_GRPC_XDS_NODE_METADATA=token:"+secret), "CONFIG_GRPC_XDS_NODE_METADATA"},
		{"argument of serve", []string{"serve", "--redis-auth=x", secret}, nil, "unexpected argument"},
		{"argument behind a flag", []string{"--redis-auth=x", secret}, nil, "unexpected argument"},
		{"attributes", nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES=a=b,"+secret), "OTEL_RESOURCE_ATTRIBUTES"},
		{"value of an attribute", nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES=a=%zz"+secret), "OTEL_RESOURCE_ATTRIBUTES"},
		{"attributes of a URL", nil, append(traces, "OTEL_RESOURCE_ATTRIBUTES="+secret+"%zz"), "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{}, c.args...), local...)
			shown := outputs(t, append(args, "--config="+dir, "--log-level=debug"), append(append(os.Environ(), asProgram+"=1", "DRAIN_TIMEOUT=100ms", "DRAIN_DELAY=0s"), c.env...))
			for place, text := range shown {
				if found := shownSecret.FindString(text); found != "" {
					t.Errorf("%s shows it: %s", place, found)
				}
			}
			if !strings.Contains(shown["log"], c.want) {
				t.Errorf("the log does not name %s: %s", c.want, shown["log"])
			}
		})
	}
}
