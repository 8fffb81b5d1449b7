package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestVariablesWithoutEffect holds every row of the tables to whether it warns, and of what.
func TestVariablesWithoutEffect(t *testing.T) {
	for _, v := range slices.Concat(reference, removed) {
		for value, warns := range map[string]bool{"": false, strings.ToUpper(v.silent): false, "7": v.warns} {
			t.Run(v.name+"="+value, func(t *testing.T) {
				var want []Warning
				if warns {
					want = []Warning{{v.name, value, v.instead}}
				}
				if s, err := parse(t, map[string]string{v.name: value}); err != nil || !slices.Equal(s.Warnings, want) {
					t.Errorf("got %v %v, want %v", s.Warnings, err, want)
				}
			})
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
