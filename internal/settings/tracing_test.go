package settings

import (
	"maps"
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
		"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "c=d",
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Tracing{true, "grpc", "limits", "edge", "a", 0.25, "a=b", "c=d", "", ""}); s.Tracing != want {
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

// TestTracingHeaders reads headers as OpenTelemetry has them.
func TestTracingHeaders(t *testing.T) {
	for _, tc := range []struct {
		all, traces string
		want        map[string]string
		err         string // in the error, which names the setting
	}{
		{all: "", want: map[string]string{}},
		{all: "Authorization=Bearer%20a%3Db, x=", want: map[string]string{"Authorization": "Bearer a=b", "x": ""}},
		{all: "a=b", traces: "c=d=e", want: map[string]string{"c": "d=e"}},
		{all: "Authorization: Bearer swordfish", err: "$OTEL_EXPORTER_OTLP_HEADERS): header 1 has no =, allowed are NAME=VALUE"},
		{traces: "a=b,sword fish=c", err: "$OTEL_EXPORTER_OTLP_TRACES_HEADERS): the name of header 2 is not allowed"},
		{all: "=swordfish", err: "the name of header 1 is not allowed"},
		{all: "a=swordfish%zz", err: "the value of header 1 has a %"},
	} {
		s, err := parse(t, map[string]string{"TRACING_ENABLED": "true", "OTEL_EXPORTER_OTLP_HEADERS": tc.all, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": tc.traces})
		switch {
		case tc.err != "":
			if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "sword") {
				t.Errorf("%q, %q: got error %v, want one with %q", tc.all, tc.traces, err, tc.err)
			}
		case err != nil:
			t.Errorf("%q, %q: %v", tc.all, tc.traces, err)
		default:
			if got := s.Tracing.HeaderValues(); !maps.Equal(got, tc.want) {
				t.Errorf("%q, %q: got %v, want %v", tc.all, tc.traces, got, tc.want)
			}
		}
	}
	if _, err := parse(t, map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "nobody: reads this"}); err != nil {
		t.Errorf("without traces: %v", err)
	}
}
