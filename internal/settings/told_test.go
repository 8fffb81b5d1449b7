package settings

import (
	"slices"
	"testing"

	"weir/internal/testenv"
)

func TestMogrifiers(t *testing.T) {
	s := testenv.Must(parse(t, map[string]string{
		"USE_DOG_STATSD_MOGRIFIERS":          "B, A",
		"DOG_STATSD_MOGRIFIER_A_PATTERN":     "a(.*)",
		"DOG_STATSD_MOGRIFIER_A_NAME":        "x.$1",
		"DOG_STATSD_MOGRIFIER_A_TAGS":        "t:$1,s:$0",
		"DOG_STATSD_MOGRIFIER_B_PATTERN":     "b",
		"DOG_STATSD_MOGRIFIER_B_NAME":        "y",
		"DOG_STATSD_MOGRIFIER_OTHER_PATTERN": "(",
	}))(t)
	m := s.Metrics.Mogrifiers
	if len(m) != 2 || m[0].Name != "y" || m[0].Tags != nil ||
		m[1].Pattern.String() != "a(.*)" || m[1].Name != "x.$1" || !slices.Equal(m[1].Tags, Tags{{"s", "$0"}, {"t", "$1"}}) {
		t.Errorf("got %+v", m)
	}
}

func TestDecisionLog(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want DecisionLog
	}{
		{nil, DecisionLog{Decisions: "off", Rate: 100, To: "stdout"}},
		{map[string]string{"DECISION_LOG": "Denied", "DECISION_LOG_RATE": "7", "DECISION_LOG_TO": "OTLP"}, DecisionLog{Decisions: "denied", Rate: 7, To: "otlp"}},
	} {
		s := testenv.Must(parse(t, c.env))(t)
		if s.DecisionLog != c.want {
			t.Errorf("got %+v, want %+v", s.DecisionLog, c.want)
		}
	}
}
