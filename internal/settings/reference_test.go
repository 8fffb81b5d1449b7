package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestReferenceIsCompared holds every row of the table to what it says of a
// value that asks for something, of one that does not, and of one that means
// nothing.
func TestReferenceIsCompared(t *testing.T) {
	for _, v := range reference {
		t.Run(v.name, func(t *testing.T) {
			asking, wrong := "somewhere", ""
			switch v.values.allowed {
			case switches.allowed:
				asking, wrong = "t", "maybe"
			case counts.allowed:
				asking, wrong = "7", "-5"
			case durations.allowed:
				asking, wrong = "150us", "xyz"
			}
			silent := ""
			if v.asks.text == isOn.text {
				silent = "FALSE"
			} else if text, ok := strings.CutPrefix(v.asks.text, "is not "); ok {
				silent = text
			}
			if s, err := parse(t, map[string]string{v.name: silent}); err != nil || len(s.Warnings) != 0 {
				t.Errorf("%q: got %v %v, want nothing", silent, s.Warnings, err)
			}
			s, err := parse(t, map[string]string{v.name: asking})
			var warnings []Warning
			if v.asks.met != nil {
				warnings = []Warning{{v.name, asking, v.instead}}
			}
			if err != nil || !slices.Equal(s.Warnings, warnings) {
				t.Errorf("%q: got %v %v, want %v", asking, s.Warnings, err, warnings)
			}
			want := fmt.Sprintf("$%s: %q is not allowed, allowed are %s", v.name, wrong, v.values.allowed)
			if _, err := parse(t, map[string]string{v.name: wrong}); wrong != "" && (err == nil || err.Error() != want) {
				t.Errorf("%q: got error %v, want %s", wrong, err, want)
			}
		})
	}
}

// TestAllWrongValuesAreTold has two at once, one of them of the second Redis.
func TestAllWrongValuesAreTold(t *testing.T) {
	_, err := parse(t, map[string]string{"EXPIRATION_JITTER_MAX_SECONDS": "many", "REDIS_PERSECOND_PIPELINE_WINDOW": "-1s"})
	for _, want := range []string{"$EXPIRATION_JITTER_MAX_SECONDS: ", "$REDIS_PERSECOND_PIPELINE_WINDOW: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

// TestReferenceHoldsNoSetting keeps the table free of what is honoured.
func TestReferenceHoldsNoSetting(t *testing.T) {
	known := map[string]bool{}
	for _, flag := range flags(t) {
		known[flag.Envs[0]] = true
	}
	for _, v := range reference {
		if known[v.name] {
			t.Errorf("%s is a setting, or twice in the table", v.name)
		}
		known[v.name] = true
	}
}

func TestRedisVariablesWithoutRedis(t *testing.T) {
	type env = map[string]string
	variables := func(s Settings) any { return fmt.Sprint(s.Redis.Variables) }
	expectSettings(t, []reading{
		{"nothing", nil, nil, variables, "[]"},
		{"settings", env{"REDIS_AUTH": "secret", "REDIS_TLS": "true"}, nil, variables, "[REDIS_AUTH REDIS_TLS]"},
		{"variables of the reference", env{"REDIS_PIPELINE_LIMIT": "5"}, nil, variables, "[REDIS_PIPELINE_LIMIT]"},
		{"with Redis", env{"REDIS_AUTH": "secret", "REDIS_URL": "db:6379"}, nil, variables, "[]"},
		{"with Redis by flag", env{"REDIS_AUTH": "secret"}, []string{"--redis-url=db:6379"}, variables, "[]"},
		{"links of Kubernetes", env{"REDIS_PORT": "tcp://10.0.0.1:6379", "REDIS_SERVICE_HOST": "10.0.0.1"}, nil, variables, "[]"},
		{"set to nothing", env{"REDIS_AUTH": ""}, nil, variables, "[]"},
	})
}
