package settings

import (
	"maps"
	"strings"
	"testing"
)

func TestDecisionLog(t *testing.T) {
	s, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (DecisionLog{Decisions: "off", Sample: 1, Rate: 100, To: "stdout"}); s.DecisionLog != want {
		t.Errorf("got %+v, want %+v", s.DecisionLog, want)
	}
	s, err = parse(t, map[string]string{
		"DECISION_LOG": "Denied", "DECISION_LOG_SAMPLE": "0.25", "DECISION_LOG_RATE": "7", "DECISION_LOG_TO": "OTLP",
		"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "c=d%20e",
	})
	if err != nil {
		t.Fatal(err)
	}
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

func TestBadDecisionLog(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"DECISION_LOG", "yes", `"yes" is no choice of decisions, allowed are off, denied and all`},
		{"DECISION_LOG_SAMPLE", "2", "is not a ratio"},
		{"DECISION_LOG_RATE", "0", "0 is not allowed, allowed is 1 to 1000000"},
		{"DECISION_LOG_TO", "file", `"file" is no place for decisions, allowed are stdout and otlp`},
		{"OTEL_EXPORTER_OTLP_HEADERS", "swordfish", "$OTEL_EXPORTER_OTLP_HEADERS): header 1 has no ="},
		{"OTEL_EXPORTER_OTLP_LOGS_HEADERS", "swordfish", "$OTEL_EXPORTER_OTLP_LOGS_HEADERS): header 1 has no ="},
	} {
		env := map[string]string{"DECISION_LOG": "all", "DECISION_LOG_TO": "otlp"}
		env[tc.name] = tc.value
		if _, err := parse(t, env); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "swordfish") {
			t.Errorf("%s=%s: got error %v, want %s", tc.name, tc.value, err, tc.want)
		}
	}
	if _, err := parse(t, map[string]string{"OTEL_EXPORTER_OTLP_LOGS_HEADERS": "nobody: reads this", "DECISION_LOG": "all"}); err != nil {
		t.Errorf("to stdout: %v", err)
	}
}
