package settings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// secretsEverywhere are the variables that put all secrets in use, without the secrets themselves.
var secretsEverywhere = map[string]string{
	"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:2", "CONFIG_TYPE": "GRPC_XDS_SOTW",
	"TRACING_ENABLED": "true", "DECISION_LOG": "all", "DECISION_LOG_TO": "otlp", "EVENTS_URL": "http://a",
}

// TestEverySecretMayBeInAFile sets one file at a time, for every setting that is secret.
func TestEverySecretMayBeInAFile(t *testing.T) {
	found := 0
	for _, flag := range flags(t) {
		name := flag.Envs[0]
		if flag.Target.Type() != reflect.TypeFor[Secret]() || strings.HasSuffix(name, "_COMMAND") {
			continue
		}
		found++
		env := map[string]string{name + "_FILE": "/run/secret"}
		for other, value := range secretsEverywhere {
			if other != name {
				env[other] = value
			}
		}
		s, err := parse(t, env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sources := s.SecretSources()
		if len(sources) != 1 || sources[0].Variable != name+"_FILE" || sources[0].File != "/run/secret" {
			t.Errorf("%s: got %+v", name, sources)
			continue
		}
		// The text of the file becomes the value of the setting.
		env[name] = "c:3"
		delete(env, name+"_FILE")
		want := testenv.Must(parse(t, env))(t)
		got := s.With(sources[0], env[name])
		testenv.Equal(t, secrets(&got), secrets(&want), "%s", name)
	}
	testenv.Equal(t, found, 8, "settings that hold secrets")
}

// secrets returns the values of all secrets.
func secrets(s *Settings) string {
	one, two := s.Redis.Main, s.Redis.PerSecond
	return fmt.Sprintf("%q", []string{
		string(one.URL), string(one.Auth), string(one.SentinelAuth), string(two.URL), string(two.Auth), string(two.SentinelAuth), string(s.XDS.Headers), string(s.Events.Auth),
	})
}

func TestSourcesOfSecrets(t *testing.T) {
	type env = map[string]string
	beside := func(one, other string) string {
		return settingName(one) + ": and " + settingName(other) + " are both set; use only one"
	}
	for name, c := range map[string]struct {
		env  env
		want string
	}{
		"file and value":   {env{"REDIS_URL": "a:1", "REDIS_AUTH": "a", "REDIS_AUTH_FILE": "/a"}, beside("REDIS_AUTH_FILE", "REDIS_AUTH")},
		"file and command": {env{"REDIS_URL": "a:1", "REDIS_AUTH_COMMAND": "a", "REDIS_AUTH_FILE": "/a"}, beside("REDIS_AUTH_COMMAND", "REDIS_AUTH_FILE")},
		"two URLs":         {env{"REDIS_URL": "a:1", "REDIS_URL_FILE": "/a"}, beside("REDIS_URL_FILE", "REDIS_URL")},
		"no word":          {env{"REDIS_URL": "a:1", "REDIS_AUTH_COMMAND": " "}, settingName("REDIS_AUTH_COMMAND") + ": is empty; use a program and its arguments"},
		"pasted secret":    {env{"REDIS_URL": "a:1", "REDIS_AUTH_FILE": "swordfish"}, settingName("REDIS_AUTH_FILE") + ": is not allowed; use the path of a file, which begins with / or ./"},
		"user in the URL":  {env{"REDIS_URL": "redis://u@a:1", "REDIS_AUTH_COMMAND": "a"}, ""},
		"both in files":    {env{"REDIS_URL_FILE": "/a", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL_FILE": "/b"}, ""},
		"a user alone":     {env{"REDIS_URL": "redis://u@a:1"}, settingName("REDIS_URL") + ": redis user has no password"},
	} {
		if _, err := parse(t, c.env); err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestChangesOfSecrets(t *testing.T) {
	for _, c := range []struct{ kind, before, after, want string }{
		{"SINGLE", "redis://:swordfish@a:1/3", "redis://u:halibut@b:2/3", ""},
		{"SINGLE", "a:1", "redis://a:1/3", "redis URL has another database, which needs a restart"},
		{"SINGLE", "redis://a:1", "rediss://a:1", "redis URL has another scheme, which needs a restart"},
		{"SINGLE", "redis://a:1", "unix:///a", "redis URL has another scheme, which needs a restart"},
		{"SINGLE", "a:1", "a:swordfish", settingName("REDIS_URL") + ": " + errURL.Error()},
		{"SENTINEL", "main,a:1", "other,b:2,c:3", ""},
		{"CLUSTER", "redis://:swordfish@a:1", "redis://:halibut@a:1", ""},
		{"CLUSTER", "a:1", "b:1", "redis URL has other addresses of a cluster, which needs a restart"},
	} {
		s := testenv.Must(parse(t, map[string]string{"REDIS_URL": c.before, "REDIS_TYPE": c.kind}))(t)
		next := s
		next.Redis.Main.URL = Secret(c.after)
		if err := s.CheckChange(next); fmt.Sprint(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("from %s to %s: got %v, want %s", c.before, c.after, err, c.want)
		}
	}
}
