package settings

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"weir/internal/testenv"
)

// TestRedis refuses an address before anything starts, of each Redis that is used, and
// wants a certificate and its key together, where they are used.
func TestRedis(t *testing.T) {
	type env = map[string]string
	const (
		noKey   = "--redis-tls-client-key ($REDIS_TLS_CLIENT_KEY): a file is required because --redis-tls-client-cert ($REDIS_TLS_CLIENT_CERT) is set"
		noCert  = "--redis-tls-client-cert ($REDIS_TLS_CLIENT_CERT): a file is required because --redis-tls-client-key ($REDIS_TLS_CLIENT_KEY) is set"
		noPort  = "--redis-url ($REDIS_URL): redis URL is not host:port; a user or a database needs redis://, a path needs unix://"
		second  = "--redis-persecond-url ($REDIS_PERSECOND_URL): redis URL port is not a number from 1 to 65535"
		noTLS   = "--redis-url ($REDIS_URL): redis URL is a unix socket, which does not support TLS"
		timeout = "--redis-timeout ($REDIS_TIMEOUT): -1s is not allowed; use 1ms or more"
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
		{"TLS of the second", env{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:2", "REDIS_PERSECOND_TLS": "true", "REDIS_TLS_CLIENT_CERT": "c"}, noKey},
		{"TLS of a second that is not used", env{"REDIS_URL": "a:1", "REDIS_PERSECOND_TLS": "true", "REDIS_TLS_CLIENT_CERT": "c"}, ""},
		{"no port", env{"REDIS_URL": "a"}, noPort},
		{"of the second", env{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:0"}, second},
		{"of a second that is not used", env{"REDIS_URL": "a:1", "REDIS_PERSECOND_URL": "b:0"}, ""},
		{"of both", env{"REDIS_URL": "a", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:0"}, noPort + "\n" + second},
		{"TLS to a path", env{"REDIS_URL": "/a.sock", "REDIS_TLS": "true"}, noTLS},
		{"nodes of a cluster", env{"REDIS_URL": "a:1,b:2", "REDIS_TYPE": "CLUSTER"}, ""},
		{"a timeout out of range is told once", env{"REDIS_URL": "a:1", "REDIS_TIMEOUT": "-1s"}, timeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parse(t, test.env)
			if got := fmt.Sprint(err); got != test.want && (err != nil || test.want != "") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// TestVariablesOfBothRedis holds every variable to what is said of each of the two, so
// that neither speaks for the other.
func TestVariablesOfBothRedis(t *testing.T) {
	s := testenv.Must(parse(t, map[string]string{
		"REDIS_URL": "/one.sock", "REDIS_TYPE": "SINGLE", "REDIS_SOCKET_TYPE": "unix", "REDIS_AUTH": "weir:a",
		"REDIS_TLS": "false", "REDIS_POOL_SIZE": "11", "REDIS_TIMEOUT": "2s",
		"REDIS_PERSECOND":     "true",
		"REDIS_PERSECOND_URL": "two,three:3", "REDIS_PERSECOND_TYPE": "SENTINEL", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", "REDIS_PERSECOND_AUTH": "c", "REDIS_PERSECOND_SENTINEL_AUTH": "d",
		"REDIS_PERSECOND_TLS": "true", "REDIS_PERSECOND_POOL_SIZE": "22", "REDIS_PERSECOND_TIMEOUT": "20ms",
	}))(t)
	for name, c := range map[string]struct {
		got  RedisServer
		tls  bool
		pool int
		time time.Duration
		want RedisAddress
	}{
		"first": {s.Redis.Main, false, 11, 2 * time.Second, RedisAddress{
			Network: "unix", Addrs: []string{"/one.sock"}, Login: Login{"weir", "a"},
		}},
		"second": {s.Redis.PerSecond, true, 22, 20 * time.Millisecond, RedisAddress{
			Network: "tcp", Primary: "two", Addrs: []string{"three:3"}, Login: Login{"", "c"}, Sentinel: Login{"", "d"},
		}},
	} {
		a, err := c.got.Address()
		if err != nil || !reflect.DeepEqual(a, c.want) {
			t.Errorf("%s: got %+v, error %v, want %+v", name, a, err, c.want)
		}
		if c.got.Encrypted() != c.tls || c.got.PoolSize != c.pool || c.got.Timeout != c.time {
			t.Errorf("%s: got %+v", name, c.got)
		}
	}
}
