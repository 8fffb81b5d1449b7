package settings

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"weir/internal/testenv"
)

// place has the settings that locate a Redis.
type place struct {
	kind               Word
	url                Secret
	socket             Word
	auth, sentinelAuth Secret
	tls                bool
}

func (p place) server() RedisServer {
	return RedisServer{RedisLocation: RedisLocation{URL: p.url, Type: p.kind}, SocketType: p.socket, Auth: p.auth, SentinelAuth: p.sentinelAuth, TLS: p.tls}
}

// TestBadAddresses checks that errors show no part of the URL.
func TestBadAddresses(t *testing.T) {
	const (
		addPort     = "redis URL has no port; add a port, such as :6379"
		noPort      = "redis URL has a password but no port, which it needs then"
		parameter   = "redis URL has an unknown parameter; use db, username and password"
		single      = "redis URL has a unix socket or a database, which needs type single"
		differ      = "redis URL has addresses that differ in user, password or scheme"
		user        = "redis user has no password"
		sentinel    = "sentinel user has no password"
		noSentinels = "redis URL is not name,host:port,...: the name of the primary, then the addresses of its sentinels"
	)
	for want, places := range map[string][]place{
		errURL.Error(): {
			{url: ""}, {url: "redis:6379/1"}, {url: "user:swordfish@redis:6379"}, {url: "redis:port"}, {url: "redis:0"}, {url: ":6379"}, {url: "redis:"},
			{url: "redis://"}, {url: "rediss://:swordfish@:6379/1"}, {url: "redis://redis:99999"}, {url: "redis:63 79"}, {url: "redis:6379", socket: "unix"}, {url: "redis.sock", socket: "unix"}, {url: "one:6379,two:6379"}, {url: "redis://one:6379,two:6379"},
			{url: "http://redis:6379"}, {url: "redis://:sword/fish@redis:6379"}, {url: "redis://:swordfish"}, {url: "redis://:123456789"}, {url: "redis:6379?password=swordfish"},
			{url: "redis://redis:6379?password=sword%fish"}, {url: "redis://redis:6379/1#swordfish"}, {url: "redis://redis/one"}, {url: "unix://"}, {url: "unix://:sword@fish/redis.sock"},
			{url: "//user:swordfish@redis:6379", socket: "unix"}, {url: "/user:swordfish@redis:6379"}, {url: "unix:///user:swordfish@redis:6379"},
			{kind: sentinelType, url: "main,:swordfish@one:1"}, {kind: clusterType, url: ""}, {kind: clusterType, url: "one:1,"},
			{kind: clusterType, url: "redis://one:1/0,redis://two:swordfish"}, {kind: clusterType, url: "one:swordfish,redis://two:2"},
		},
		addPort:   {{url: "localhost"}, {url: "swordfish"}, {kind: sentinelType, url: "main,one:1,two"}, {kind: clusterType, url: "one:1,swordfish"}},
		noPort:    {{url: "redis://:sword@fish"}, {url: "redis://user:swordfish@redis/1"}},
		parameter: {{url: "redis://redis:6379?password=swordfish&pool_size=1"}},
		single: {
			{kind: sentinelType, url: "main,/run/redis.sock"}, {kind: clusterType, url: "one:1,redis://two:2/3"}, {kind: clusterType, url: "one:1,unix:///run/redis.sock"},
			{kind: clusterType, url: "/run/redis.sock"},
		},
		differ:      {{kind: clusterType, url: "redis://:swordfish@one:1,redis://two:2"}, {kind: clusterType, url: "redis://one:1,rediss://two:2"}},
		user:        {{url: "redis://redis:6379?username=weir"}, {url: "redis:6379", auth: "weir:"}},
		sentinel:    {{kind: sentinelType, url: "main,one:1", sentinelAuth: "weir:"}, {kind: sentinelType, url: "main,redis://weir@one:1"}},
		noSentinels: {{kind: sentinelType, url: "redis:6379,redis:6380"}, {kind: sentinelType, url: "main"}},
		"redis URL is a unix socket, which does not support TLS": {{url: "unix:///run/redis.sock", tls: true}},
	} {
		for _, place := range places {
			if a, err := place.server().Address(); err == nil || err.Error() != want {
				t.Errorf("%+v: got %+v, error %v, want %s", place, a, err, want)
			}
		}
	}
}

// TestAddresses reads addresses, users and passwords from the URL and from other settings.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		place
		addrs           string
		db              int
		redis, sentinel Login
	}{
		{place{url: "redis:6379"}, "[redis:6379]", 0, Login{}, Login{}},
		{place{url: "[::1]:6379"}, "[[::1]:6379]", 0, Login{}, Login{}},
		{place{url: "redis://redis"}, "[redis:6379]", 0, Login{}, Login{}},
		{place{url: "redis://[::1]/2"}, "[[::1]:6379]", 2, Login{}, Login{}},
		{place{url: "rediss://redis:7000/1"}, "[redis:7000]", 1, Login{}, Login{}},
		{place{url: "/run/redis.sock"}, "[/run/redis.sock]", 0, Login{}, Login{}},
		{place{url: "redis://redis:6379", socket: "unix"}, "[redis:6379]", 0, Login{}, Login{}},
		{place{url: " redis:6379\n"}, "[redis:6379]", 0, Login{}, Login{}},
		{place{url: "redis:6379", auth: "pa:ss:word"}, "[redis:6379]", 0, Login{"pa", "ss:word"}, Login{}},
		{place{url: "unix:///run/redis.sock", socket: "unix"}, "[/run/redis.sock]", 0, Login{}, Login{}},
		{place{url: "redis://redis:6379?db=1"}, "[redis:6379]", 1, Login{}, Login{}},
		{place{url: "redis://weir:p%40ss%2Fword@redis:6379"}, "[redis:6379]", 0, Login{"weir", "p@ss/word"}, Login{}},
		{place{url: "redis://redis:6379?password=p+w%26&username=weir&db=2"}, "[redis:6379]", 2, Login{"weir", "p w&"}, Login{}},
		{place{url: "redis://:first@redis:6379?password=second"}, "[redis:6379]", 0, Login{"", "first"}, Login{}},
		{place{url: "redis://redis?password=p"}, "[redis:6379]", 0, Login{"", "p"}, Login{}},
		{place{url: "redis://redis:6379?username=weir", auth: "p"}, "[redis:6379]", 0, Login{"weir", "p"}, Login{}},
		{place{url: "redis://:url@redis:6379", auth: "weir:option"}, "[redis:6379]", 0, Login{"", "url"}, Login{}},
		{place{url: "unix://weir:p@/run/redis.sock?db=3"}, "[/run/redis.sock]", 3, Login{"weir", "p"}, Login{}},
		{place{kind: clusterType, url: "redis://one:1,redis://two:2"}, "[one:1 two:2]", 0, Login{}, Login{}},
		{place{kind: clusterType, url: "one:1, two:2"}, "[one:1 two:2]", 0, Login{}, Login{}},
		{place{kind: clusterType, url: "redis://:p@one:1,redis://two:2?password=p"}, "[one:1 two:2]", 0, Login{"", "p"}, Login{}},
		{place{kind: sentinelType, url: "main, redis://:s@one:1,redis://:s@two:2", auth: "p"}, "[one:1 two:2]", 0, Login{"", "p"}, Login{"", "s"}},
		{place{kind: sentinelType, url: "main,one:1", sentinelAuth: "weir:s"}, "[one:1]", 0, Login{}, Login{"weir", "s"}},
		{place{url: "redis://weir@redis:6379", auth: "pa:ss:word"}, "[redis:6379]", 0, Login{"weir", "pa:ss:word"}, Login{}},
		{place{url: "redis:6379", auth: ":pa:ss:word"}, "[redis:6379]", 0, Login{"", "pa:ss:word"}, Login{}},
		{place{kind: sentinelType, url: "main,redis://weir@one:1", auth: "pa:s:s", sentinelAuth: "w:o:rd"}, "[one:1]", 0, Login{"pa", "s:s"}, Login{"weir", "w:o:rd"}},
	} {
		a, err := c.server().Address()
		if err != nil || fmt.Sprint(a.Addrs) != c.addrs || a.DB != c.db || !reflect.DeepEqual([]Login{a.Login, a.Sentinel}, []Login{c.redis, c.sentinel}) {
			t.Errorf("%s: got %+v, error %v", c.url, a, err)
		}
	}
}

// TestBothRedis checks that every variable applies to its own Redis only, and that an invalid URL of
// a Redis in use is refused.
func TestBothRedis(t *testing.T) {
	s := testenv.Must(parse(t, map[string]string{
		"REDIS_URL": "/one.sock", "REDIS_TYPE": "SINGLE", "REDIS_SOCKET_TYPE": "unix", "REDIS_AUTH": "weir:a",
		"REDIS_TLS": "false", "REDIS_POOL_SIZE": "11", "REDIS_TIMEOUT": "2s",
		"REDIS_PERSECOND":     "true",
		"REDIS_PERSECOND_URL": "two,three:3", "REDIS_PERSECOND_TYPE": "SENTINEL", "REDIS_PERSECOND_SOCKET_TYPE": "tcp", "REDIS_PERSECOND_AUTH": "c", "REDIS_PERSECOND_SENTINEL_AUTH": "d",
		"REDIS_PERSECOND_TLS": "true", "REDIS_PERSECOND_POOL_SIZE": "22", "REDIS_PERSECOND_TIMEOUT": "20ms",
	}))(t)
	for _, c := range []struct {
		got  RedisServer
		tls  bool
		pool int
		time time.Duration
		want RedisAddress
	}{
		{s.Redis.Main, false, 11, 2 * time.Second, RedisAddress{Network: "unix", Addrs: []string{"/one.sock"}, Login: Login{"weir", "a"}}},
		{s.Redis.PerSecond, true, 22, 20 * time.Millisecond, RedisAddress{Network: "tcp", Primary: "two", Addrs: []string{"three:3"}, Login: Login{"", "c"}, Sentinel: Login{"", "d"}}},
	} {
		a, err := c.got.Address()
		if err != nil || !reflect.DeepEqual(a, c.want) || c.got.Encrypted() != c.tls || c.got.PoolSize != c.pool || c.got.Timeout != c.time {
			t.Errorf("got %+v of %+v, error %v, want %+v", a, c.got, err, c.want)
		}
	}
	one, two := "--redis-url ($REDIS_URL): "+errURL.Error(), "--redis-persecond-url ($REDIS_PERSECOND_URL): "+errURL.Error()
	for want, env := range map[string]map[string]string{
		one + "\n" + two: {"REDIS_URL": "a:0", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:0"},
		"<nil>":          {"REDIS_URL": "a:1", "REDIS_PERSECOND_URL": "b:0"}, // the second Redis is not in use
		"--redis-persecond-url ($REDIS_PERSECOND_URL): is not set, but $REDIS_PERSECOND is": {"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": ""},
	} {
		_, err := parse(t, env)
		testenv.Equal(t, fmt.Sprint(err), want, "%v", env)
	}
}
