package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestVariablesWithoutEffect checks the warning of every row of the table.
func TestVariablesWithoutEffect(t *testing.T) {
	for _, v := range ignoredVariables {
		for value, warns := range map[string]bool{"": false, strings.ToUpper(v.silent): false, "7": true} {
			var want []Warning
			if warns {
				want = []Warning{{v.variable, value, v.instead, false}}
			}
			if s, err := parse(t, map[string]string{v.variable: value}); err != nil || !slices.Equal(s.Warnings, want) {
				t.Errorf("%s=%s: got %v %v, want %v", v.variable, value, s.Warnings, err, want)
			}
		}
	}
}

// TestSettingsThatGoTogether expects errors for missing settings that others need, and warnings of
// settings without effect, for variables and for flags.
func TestSettingsThatGoTogether(t *testing.T) {
	type env = map[string]string
	needs := func(one, other string) string {
		return settingName(one) + ": is required because " + settingName(other) + " is set"
	}
	const tls, cert, key, ca, san = "GRPC_SERVER_USE_TLS", "GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT", "GRPC_CLIENT_TLS_SAN"
	const redisCert, redisKey, redisCA = "REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY", "REDIS_TLS_CACERT"
	const xdsTLS, xdsKey, xdsCA = "CONFIG_GRPC_XDS_SERVER_USE_TLS", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT"
	for _, test := range []struct {
		env    env
		errors string
		warned string // the variables in warnings
	}{
		{env{tls: "1", cert: "c", key: "k"}, "", ""},
		{env{tls: "true", cert: "c", key: "k", ca: "a", san: "envoy"}, "", ""},
		{env{tls: "true"}, needs(cert, tls) + "\n" + needs(key, tls), ""},
		{env{tls: "true", cert: "c"}, needs(key, tls), ""},
		{env{tls: "true", cert: "c", key: "k", san: "envoy"}, needs(ca, san), ""},
		{env{key: "k", ca: "a", san: "envoy"}, "", key + " " + ca + " " + san},
		{env{xdsTLS: "true", xdsKey: "k", xdsCA: "a"}, needs("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", xdsKey), ""},
		{env{xdsKey: "k", xdsCA: "a"}, "", xdsKey + " " + xdsCA},
		{env{redisCA: "a"}, "", ""}, // a warning of its own lists all variables of Redis
		{env{"REDIS_URL": "a:1", redisCA: "a", redisCert: "c"}, "", redisCA + " " + redisCert},
		{env{"REDIS_URL_FILE": "/url", redisCA: "a"}, "", ""},
		{env{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL_FILE": "/url", redisCA: "a"}, "", ""},
		{env{"REDIS_URL": "a:1", "REDIS_TLS": "true", redisCert: "c", redisKey: "k"}, "", ""},
		{env{"REDIS_URL": "a:1", "REDIS_TLS": "true", redisKey: "k"}, needs(redisCert, redisKey), ""},
		{env{"REDIS_URL": "rediss://a:1", redisCert: "c"}, needs(redisKey, redisCert), ""},
		{env{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:2", "REDIS_PERSECOND_TLS": "true", redisCert: "c"}, needs(redisKey, redisCert), ""},
		{env{"REDIS_URL": "a:1", "REDIS_PERSECOND_TLS": "true", redisCert: "c"}, "", redisCert},
	} {
		var args []string
		for variable, value := range test.env {
			flag, _, _ := strings.Cut(settingName(variable), " ")
			args = append(args, flag+"="+value)
		}
		byVariable, err := parse(t, test.env)
		byFlag, flagErr := parse(t, nil, args...)
		if got := fmt.Sprint(err); got != test.errors && (err != nil || test.errors != "") || fmt.Sprint(flagErr) != got {
			t.Errorf("%v: got %v, by flags %v, want %s", test.env, err, flagErr, test.errors)
		}
		var warned []string
		for _, w := range byVariable.Warnings {
			warned = append(warned, w.Variable)
			if !strings.HasSuffix(w.Instead, " is off") || w.Value != test.env[w.Variable] {
				t.Errorf("%v: warning %+v", test.env, w)
			}
		}
		if strings.Join(warned, " ") != test.warned || !slices.Equal(byFlag.Warnings, byVariable.Warnings) {
			t.Errorf("%v: warned of %v, by flags %v, want %s", test.env, warned, byFlag.Warnings, test.warned)
		}
	}
}

// TestRedisVariablesWithoutRedis lists the variables of a Redis that is off, whose files are not read.
func TestRedisVariablesWithoutRedis(t *testing.T) {
	type env = map[string]string
	for _, c := range []struct {
		env  env
		args []string
		want string
	}{
		{env{"REDIS_AUTH": "secret", "REDIS_TLS": "true", "REDIS_PERSECOND_URL_FILE": "/a"}, nil, "[REDIS_AUTH REDIS_TLS REDIS_PERSECOND_URL_FILE]"},
		{env{"REDIS_AUTH_FILE": "/a", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS_FILE": "/a"}, nil, "[REDIS_AUTH_FILE]"},
		{env{"REDIS_AUTH": "secret", "REDIS_URL": "db:6379"}, nil, "[]"},
		{env{"REDIS_AUTH": "secret"}, []string{"--redis-url=db:6379"}, "[]"},
		{env{"REDIS_PORT": "tcp://10.0.0.1:6379", "REDIS_SERVICE_HOST": "10.0.0.1", "REDIS_AUTH": ""}, nil, "[]"}, // Kubernetes sets these for services
	} {
		if s, err := parse(t, c.env, c.args...); err != nil || fmt.Sprint(s.Redis.Variables) != c.want || len(s.SecretSources()) != 0 {
			t.Errorf("%v: got %v, error %v, want %s; secrets are read from %v", c.env, s.Redis.Variables, err, c.want, s.SecretSources())
		}
	}
}
