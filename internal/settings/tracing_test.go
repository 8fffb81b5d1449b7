package settings

import (
	"strings"
	"testing"
)

func TestTracingOfTheReference(t *testing.T) {
	s, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Tracing{ExporterProtocol: "http", ServiceName: "RateLimit", SamplingRate: 1}); s.Tracing != want {
		t.Errorf("got %+v, want %+v", s.Tracing, want)
	}
	s, err = parse(t, map[string]string{
		"TRACING_ENABLED": "true", "TRACING_EXPORTER_PROTOCOL": "gRPC", "TRACING_SERVICE_NAME": "limits",
		"TRACING_SERVICE_NAMESPACE": "edge", "TRACING_SERVICE_INSTANCE_ID": "a", "TRACING_SAMPLING_RATE": "0.25",
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Tracing{true, "grpc", "limits", "edge", "a", 0.25}); s.Tracing != want {
		t.Errorf("got %+v, want %+v", s.Tracing, want)
	}
}

func TestBadTracing(t *testing.T) {
	for name, tc := range map[string]struct{ value, want string }{
		"TRACING_ENABLED":           {"perhaps", "is no switch"},
		"TRACING_EXPORTER_PROTOCOL": {"zipkin", "allowed are http and grpc"},
		"TRACING_SAMPLING_RATE":     {"2", "is not a ratio"},
	} {
		if _, err := parse(t, map[string]string{name: tc.value}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s: got error %v, want %s", name, tc.value, err, tc.want)
		}
	}
}
