package settings

import (
	"fmt"
	"testing"
)

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
