package settings

import (
	"fmt"
	"testing"
	"time"
)

// Each variable of the first Redis has a twin, and neither speaks for the other.
// What both make of their settings is one and the same code.
func TestVariablesOfBothRedis(t *testing.T) {
	env := map[string]string{
		"REDIS_URL": "one:1", "REDIS_TYPE": "CLUSTER", "REDIS_SOCKET_TYPE": "tcp", "REDIS_AUTH": "a", "REDIS_SENTINEL_AUTH": "b",
		"REDIS_TLS": "true", "REDIS_POOL_SIZE": "11", "REDIS_TIMEOUT": "1s",
		"REDIS_PERSECOND":     "true",
		"REDIS_PERSECOND_URL": "/two.sock", "REDIS_PERSECOND_TYPE": "SINGLE", "REDIS_PERSECOND_SOCKET_TYPE": "unix", "REDIS_PERSECOND_AUTH": "c", "REDIS_PERSECOND_SENTINEL_AUTH": "d",
		"REDIS_PERSECOND_TLS": "false", "REDIS_PERSECOND_POOL_SIZE": "22", "REDIS_PERSECOND_TIMEOUT": "2s",
		"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "true", // of both
	}
	s, err := parse(t, env)
	if err != nil {
		t.Fatal(err)
	}
	want := Redis{
		Main:         RedisServer{"one:1", "cluster", "tcp", "a", "b", true, 11, time.Second},
		PerSecond:    RedisServer{"/two.sock", "single", "unix", "c", "d", false, 22, 2 * time.Second},
		UsePerSecond: true, TLSSkipHostnameVerification: true,
	}
	if got := s.Redis; got.Main != want.Main || got.PerSecond != want.PerSecond || got.UsePerSecond != want.UsePerSecond || got.TLSSkipHostnameVerification != want.TLSSkipHostnameVerification {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

// TestPairsOfRedis wants a certificate and its key together, where they are used.
func TestPairsOfRedis(t *testing.T) {
	type env = map[string]string
	const (
		noKey  = "--redis-tls-client-key ($REDIS_TLS_CLIENT_KEY): a file is needed because --redis-tls-client-cert ($REDIS_TLS_CLIENT_CERT) is set"
		noCert = "--redis-tls-client-cert ($REDIS_TLS_CLIENT_CERT): a file is needed because --redis-tls-client-key ($REDIS_TLS_CLIENT_KEY) is set"
	)
	for _, test := range []struct {
		name string
		env  env
		want string
	}{
		{"without TLS", env{"REDIS_URL": "a:1", "REDIS_TLS_CLIENT_CERT": "c"}, ""},
		{"both", env{"REDIS_URL": "a:1", "REDIS_TLS": "true", "REDIS_TLS_CLIENT_CERT": "c", "REDIS_TLS_CLIENT_KEY": "k"}, ""},
		{"no key", env{"REDIS_URL": "a:1", "REDIS_TLS": "true", "REDIS_TLS_CLIENT_CERT": "c"}, noKey},
		{"no certificate", env{"REDIS_URL": "a:1", "REDIS_TLS": "true", "REDIS_TLS_CLIENT_KEY": "k"}, noCert},
		{"TLS by URL", env{"REDIS_URL": "rediss://a:1", "REDIS_TLS_CLIENT_CERT": "c"}, noKey},
		{"TLS by URL of a sentinel", env{"REDIS_URL": "main, rediss://a:1", "REDIS_TYPE": "SENTINEL", "REDIS_TLS_CLIENT_CERT": "c"}, noKey},
		{"TLS of the second", env{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:2", "REDIS_PERSECOND_TLS": "true", "REDIS_TLS_CLIENT_CERT": "c"}, noKey},
		{"TLS of a second that is not used", env{"REDIS_URL": "a:1", "REDIS_PERSECOND_TLS": "true", "REDIS_TLS_CLIENT_CERT": "c"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parse(t, test.env)
			if got := fmt.Sprint(err); got != test.want && (err != nil || test.want != "") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
