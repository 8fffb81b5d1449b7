package settings

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestMogrifiers(t *testing.T) {
	s, err := parse(t, map[string]string{
		"USE_DOG_STATSD_MOGRIFIERS":          "B, A",
		"DOG_STATSD_MOGRIFIER_A_PATTERN":     "a(.*)",
		"DOG_STATSD_MOGRIFIER_A_NAME":        "x.$1",
		"DOG_STATSD_MOGRIFIER_A_TAGS":        "t:$1,s:$0",
		"DOG_STATSD_MOGRIFIER_B_PATTERN":     "b",
		"DOG_STATSD_MOGRIFIER_B_NAME":        "y",
		"DOG_STATSD_MOGRIFIER_OTHER_PATTERN": "(",
	})
	must(t, err)
	m := s.Metrics.Mogrifiers
	if len(m) != 2 || m[0].Name != "y" || m[0].Tags != nil ||
		m[1].Pattern.String() != "a(.*)" || m[1].Name != "x.$1" || !slices.Equal(m[1].Tags, Tags{{"s", "$0"}, {"t", "$1"}}) {
		t.Errorf("got %+v", m)
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
}

func TestDecisionLog(t *testing.T) {
	s, err := parse(t, nil)
	must(t, err)
	if want := (DecisionLog{Decisions: "off", Sample: 1, Rate: 100, To: "stdout"}); s.DecisionLog != want {
		t.Errorf("got %+v, want %+v", s.DecisionLog, want)
	}
	s, err = parse(t, map[string]string{
		"DECISION_LOG": "Denied", "DECISION_LOG_SAMPLE": "0.25", "DECISION_LOG_RATE": "7", "DECISION_LOG_TO": "OTLP",
		"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "c=d%20e",
	})
	must(t, err)
	if want := (DecisionLog{Decisions: "denied", Sample: 0.25, Rate: 7, To: "otlp", LogsHeaders: "c=d%20e"}); s.DecisionLog != want {
		t.Errorf("got %+v, want %+v", s.DecisionLog, want)
	}
	if got := s.DecisionLog.HeaderValues(s.Tracing.Headers); !maps.Equal(got, map[string]string{"c": "d e"}) {
		t.Errorf("got %v", got)
	}
	s.DecisionLog.LogsHeaders = ""
	if got := s.DecisionLog.HeaderValues(s.Tracing.Headers); !maps.Equal(got, map[string]string{"a": "b"}) {
		t.Errorf("got %v", got)
	}
}

func TestHeadersThatNobodyReads(t *testing.T) {
	for _, env := range []map[string]string{
		{"OTEL_EXPORTER_OTLP_LOGS_HEADERS": "nobody: reads this", "DECISION_LOG": "all"},
		{"OTEL_EXPORTER_OTLP_HEADERS": "nobody: reads this"},
	} {
		if _, err := parse(t, env); err != nil {
			t.Errorf("%v: %v", env, err)
		}
	}
}
