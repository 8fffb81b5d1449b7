package settings

import (
	"slices"
	"strings"
	"testing"
)

func TestMetricsOfTheReference(t *testing.T) {
	s, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := s.Metrics
	if m.NearLimitRatio != 0.8 || m.UseStatsd.Set || m.UseDogStatsd || m.DisableStats ||
		m.StatsdAddress() != "localhost:8125" || m.StatsdProtocol != "tcp" || m.StatsFlushInterval.String() != "10s" {
		t.Errorf("defaults are %+v", m)
	}
	s, err = parse(t, map[string]string{
		"NEAR_LIMIT_RATIO": "0.5", "USE_STATSD": "false", "STATSD_HOST": "::1", "STATSD_PORT": "9125", "STATSD_PROTOCOL": "UDP",
		"STATS_FLUSH_INTERVAL": "1s", "EXTRA_TAGS": "zone:a, commit:1:2,", "USE_DOG_STATSD": "true", "DISABLE_STATS": "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	m = s.Metrics
	if m.NearLimitRatio != 0.5 || m.UseStatsd != (Choice{Set: true}) || !m.UseDogStatsd || !m.DisableStats ||
		m.StatsdAddress() != "[::1]:9125" || m.StatsdProtocol != "udp" || m.StatsFlushInterval.String() != "1s" {
		t.Errorf("got %+v", m)
	}
	if want := (Tags{{"commit", "1:2"}, {"zone", "a"}}); !slices.Equal(m.ExtraTags, want) {
		t.Errorf("got tags %v, want %v", m.ExtraTags, want)
	}
}

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
	if err != nil {
		t.Fatal(err)
	}
	m := s.Metrics.Mogrifiers
	if len(m) != 2 || m[0].Name != "y" || m[0].Tags != nil ||
		m[1].Pattern.String() != "a(.*)" || m[1].Name != "x.$1" || !slices.Equal(m[1].Tags, Tags{{"s", "$0"}, {"t", "$1"}}) {
		t.Errorf("got %+v", m)
	}
}

func TestBadMetrics(t *testing.T) {
	type env = map[string]string
	for _, tc := range []struct {
		env  env
		want []string
	}{
		{env{"NEAR_LIMIT_RATIO": "80"}, []string{`"80" is not a ratio`, "0 to 1"}},
		{env{"NEAR_LIMIT_RATIO": "NaN"}, []string{`"NaN" is not a ratio`}},
		{env{"MAX_DETAILED_SERIES": "-1"}, []string{"MAX_DETAILED_SERIES", "0 to 1000000"}},
		{env{"USE_STATSD": "maybe"}, []string{`"maybe" is no switch`}},
		{env{"STATSD_PORT": "tcp://10.0.0.1:8125"}, []string{"is not a port", "Kubernetes"}},
		{env{"STATSD_PROTOCOL": "unix"}, []string{`"unix" is not a protocol`, "tcp and udp"}},
		{env{"STATS_FLUSH_INTERVAL": "0"}, []string{"STATS_FLUSH_INTERVAL", "10ms to 1h"}},
		{env{"EXTRA_TAGS": "zone"}, []string{`"zone" is not a tag`, "name:value"}},
		{env{"EXTRA_TAGS": "a:b,:c"}, []string{`":c" is not a tag`}},
		{env{"EXTRA_TAGS": "a:b\nc:1|c"}, []string{"is not a tag"}},
		{env{"USE_DOG_STATSD_MOGRIFIERS": "A-B"}, []string{`"A-B" is not a name`}},
		{env{"USE_DOG_STATSD_MOGRIFIERS": "A"}, []string{"$DOG_STATSD_MOGRIFIER_A_PATTERN", "is needed", "$DOG_STATSD_MOGRIFIER_A_NAME"}},
		{env{"USE_DOG_STATSD_MOGRIFIERS": "A", "DOG_STATSD_MOGRIFIER_A_PATTERN": "(", "DOG_STATSD_MOGRIFIER_A_NAME": "x", "DOG_STATSD_MOGRIFIER_A_TAGS": "t:"},
			[]string{"$DOG_STATSD_MOGRIFIER_A_PATTERN", "missing closing )", "$DOG_STATSD_MOGRIFIER_A_TAGS", `"t:" is not a tag`}},
	} {
		_, err := parse(t, tc.env)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got error %v, want %s", tc.env, err, want)
			}
		}
	}
}
