package settings

import (
	"fmt"
	"reflect"
	"testing"
)

// place is a Redis as its settings have it.
type place struct {
	kind               Word
	url                Secret
	socket             Word
	auth, sentinelAuth Secret
	tls                bool
	want               string // the error
}

func (p place) server() RedisServer {
	return RedisServer{RedisPlace: RedisPlace{URL: p.url, Type: p.kind}, SocketType: p.socket, Auth: p.auth, SentinelAuth: p.sentinelAuth, TLS: p.tls}
}

func TestAddressesAreChecked(t *testing.T) {
	for _, c := range []place{
		{url: "", want: `redis URL is empty`},
		{url: "redis", want: `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{url: "redis:6379/1", want: `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{url: "user:swordfish@redis:6379", want: `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{url: "redis:port", want: `redis URL port is not a number from 1 to 65535`},
		{url: "redis:0", want: `redis URL port is not a number from 1 to 65535`},
		{url: ":6379", want: `redis URL has no host`},
		{url: "redis://", want: `redis URL has no host`},
		{url: "rediss://:swordfish@:6379/1", want: `redis URL has no host`},
		{url: "redis://redis:99999", want: `redis URL port is not a number from 1 to 65535`},
		{url: " redis:6379", want: `redis URL contains a blank`},
		{url: "redis:6379\n", want: `redis URL contains a blank`},
		{url: "one:6379,two:6379", want: `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{url: "redis://one:6379,two:6379", want: `redis URL has several hosts, which needs type sentinel or cluster`},
		{url: "http://redis:6379", want: `redis URL has an unknown scheme; use redis, rediss or unix`},
		{url: "redis://:sword/fish@redis:6379", want: `redis URL cannot be parsed; in a password, write special characters as %XX`},
		{url: "redis://:swordfish", want: `redis URL cannot be parsed; in a password, write special characters as %XX`},
		{url: "redis://:123456789", want: `redis URL has no host`},
		{url: "redis://:sword@fish", want: `redis URL has a password but no port, which it needs then`},
		{url: "redis://user:swordfish@redis/1", want: `redis URL has a password but no port, which it needs then`},
		{url: "redis://redis:6379?password=swordfish&pool_size=1", want: `redis URL has an unknown parameter; use db, username or password`},
		{url: "redis://redis:6379?password=sword%fish", want: `redis URL cannot be parsed; in a password, write special characters as %XX`},
		{url: "redis://redis:6379?username=weir", want: `redis user has no password`},
		{url: "redis://redis:6379/1#swordfish", want: `redis URL cannot be parsed; in a password, write special characters as %XX`},
		{url: "redis:6379?password=swordfish", want: `redis URL port is not a number from 1 to 65535`},
		{url: "unix://:sword@fish/redis.sock", want: `redis URL is not the path of a socket, such as unix:///run/redis.sock`},
		{url: "redis://redis/one", want: `redis URL cannot be parsed; in a password, write special characters as %XX`},
		{url: "unix://", want: `redis URL is not the path of a socket, such as unix:///run/redis.sock`},
		{url: "redis://redis:6379", socket: "unix", want: `redis URL has the scheme redis, but the socket type is unix`},
		{url: "unix:///run/redis.sock", tls: true, want: `redis URL is a unix socket, which does not support TLS`},
		{url: "redis:6379", auth: "weir:", want: `redis user has no password`},
		{kind: sentinelType, url: "redis:6379,redis:6380", want: `redis URL is not name,host:port,...: the name of the primary, then the addresses of its sentinels`},
		{kind: sentinelType, url: "main,one:1,two", want: `redis URL address 2 is not host:port; a user or a database needs redis://, a path needs unix://`},
		{kind: sentinelType, url: "main,:swordfish@one:1", want: `redis URL address 1 is not host:port; a user or a database needs redis://, a path needs unix://`},
		{kind: sentinelType, url: "main,one:1", socket: "unix", want: `redis URL address 1 is a unix socket or has a database, which only type single may have`},
		{kind: sentinelType, url: "main,one:1", sentinelAuth: "weir:", want: `sentinel user has no password`},
		{kind: clusterType, url: "", want: `redis URL address 1 is empty`},
		{kind: clusterType, url: "one:1,", want: `redis URL address 2 is empty`},
		{kind: clusterType, url: "redis://:swordfish@one:1,redis://two:2", want: `redis URL address 2 differs from the first in user, password or scheme`},
		{kind: clusterType, url: "redis://one:1,rediss://two:2", want: `redis URL address 2 differs from the first in user, password or scheme`},
		{kind: clusterType, url: "redis://one:1/0,redis://two:swordfish", want: `redis URL address 2 cannot be parsed; in a password, write special characters as %XX`},
		{kind: clusterType, url: "one:swordfish,redis://two:2", want: `redis URL address 1 port is not a number from 1 to 65535`},
		{kind: clusterType, url: "one:1,redis://two:2/3", want: `redis URL address 2 is a unix socket or has a database, which only type single may have`},
		{kind: clusterType, url: "one:1,unix:///run/redis.sock", want: `redis URL address 2 is a unix socket or has a database, which only type single may have`},
		{kind: sentinelType, url: "main,redis://weir@one:1", want: `sentinel user has no password`},
		{kind: clusterType, url: "/run/redis.sock", socket: "unix", want: `redis URL address 1 is a unix socket or has a database, which only type single may have`},
		{url: "//user:swordfish@redis:6379", socket: "unix", want: `redis URL is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it`},
		{url: "/user:swordfish@redis:6379", socket: "unix", want: `redis URL is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it`},
		{url: "unix:///user:swordfish@redis:6379", want: `redis URL is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it`},
	} {
		if a, err := c.server().Address(); err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %+v, error %v", c, a, err)
		}
	}
}

// TestAddresses reads addresses, users and passwords from wherever they may be.
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
	} {
		a, err := c.server().Address()
		if err != nil || fmt.Sprint(a.Addrs) != c.addrs || a.DB != c.db || !reflect.DeepEqual([]Login{a.Login, a.Sentinel}, []Login{c.redis, c.sentinel}) {
			t.Errorf("%s: got %+v, error %v", c.url, a, err)
		}
	}
}
