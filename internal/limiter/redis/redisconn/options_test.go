package redisconn

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{}, `redis URL is empty`},
		{Options{URL: "redis"}, `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{URL: "/run/redis.sock"}, `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{URL: "redis:6379/1"}, `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{URL: "swordfish@redis:6379"}, `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{URL: "user:swordfish@redis:6379"}, `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{URL: "user:swordfish@redis"}, `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{URL: "redis:port"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "redis:70000"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "redis:0"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "redis:-1"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "redis:http"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "redis:"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: ":6379"}, `redis URL has no host`},
		{Options{URL: "redis://"}, `redis URL has no host`},
		{Options{URL: "redis://:6379"}, `redis URL has no host`},
		{Options{URL: "rediss://:swordfish@:6379/1"}, `redis URL has no host`},
		{Options{URL: "redis://redis:99999"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "redis://redis:0/1"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: " redis:6379"}, `redis URL has a blank in it`},
		{Options{URL: "redis:6379\n"}, `redis URL has a blank in it`},
		{Options{URL: "redis: 6379"}, `redis URL has a blank in it`},
		{Options{URL: "redis://redis:6379 "}, `redis URL has a blank in it`},
		{Options{URL: "one:6379,two:6379"}, `redis URL is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{URL: "redis://one:6379,two:6379"}, `redis URL names several hosts, allowed is one`},
		{Options{URL: "http://redis:6379"}, `redis URL scheme is none of redis, rediss and unix`},
		{Options{URL: "redis://:sword/fish@redis:6379"}, `redis URL cannot be understood; in a password, special characters are written as %XX`},
		{Options{URL: "redis://:1/swordfish@redis:6379"}, `redis URL cannot be understood; in a password, special characters are written as %XX`},
		{Options{URL: "redis://:swordfish"}, `redis URL cannot be understood; in a password, special characters are written as %XX`},
		{Options{URL: "redis://:123456789"}, `redis URL has no host`},
		{Options{URL: "redis://:sword@fish"}, `redis URL has a password but no port, which is needed then`},
		{Options{URL: "redis://user:swordfish@redis/1"}, `redis URL has a password but no port, which is needed then`},
		{Options{URL: "weir:swordfish"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "redis://redis:6379?password=swordfish&pool_size=1"}, `redis URL has a query with something else than db, username and password`},
		{Options{URL: "redis://redis:6379?password=sword%fish"}, `redis URL cannot be understood; in a password, special characters are written as %XX`},
		{Options{URL: "redis://redis?db=one"}, `redis URL cannot be understood; in a password, special characters are written as %XX`},
		{Options{URL: "redis://redis:6379?username=weir"}, `redis user has no password`},
		{Options{URL: "redis://redis:6379/1#swordfish"}, `redis URL has a # in it; in a password, special characters are written as %XX`},
		{Options{URL: "redis:6379?password=swordfish"}, `redis URL port is not a number from 1 to 65535`},
		{Options{URL: "unix://:sword@fish/redis.sock"}, `redis URL has a host, a unix socket has none`},
		{Options{URL: "redis://redis/one"}, `redis URL cannot be understood; in a password, special characters are written as %XX`},
		{Options{URL: "unix://"}, `redis URL cannot be understood; in a password, special characters are written as %XX`},
		{Options{URL: "redis:6379", SocketType: "udp"}, `redis URL socket type "udp" is neither tcp nor unix`},
		{Options{URL: "redis://redis:6379", SocketType: "unix"}, `redis URL scheme redis contradicts socket type unix`},
		{Options{URL: "unix:///run/redis.sock", TLS: func() *tls.Config { return nil }}, `redis URL is that of a unix socket, which does not speak TLS`},
		{Options{URL: "redis:6379", Username: "weir"}, `redis user has no password`},
		{Options{Type: Sentinel, URL: "redis:6379,redis:6380"}, `redis URL is not name,host:port,...: the name of the primary, then the addresses of its sentinels`},
		{Options{Type: Sentinel, URL: "main"}, `redis URL is not name,host:port,...: the name of the primary, then the addresses of its sentinels`},
		{Options{Type: Sentinel, URL: "main,one:1,two"}, `redis URL address 2 is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{Type: Sentinel, URL: "main,:swordfish@one:1"}, `redis URL address 1 is not host:port; a user or a database needs redis://, a path needs unix://`},
		{Options{Type: Sentinel, URL: "main,one:1", SocketType: "unix"}, `redis URL type sentinel is reached over tcp only`},
		{Options{Type: Sentinel, URL: "main,one:1", SentinelUsername: "weir"}, `sentinel user has no password`},
		{Options{Type: Cluster, URL: ""}, `redis URL address 1 is empty`},
		{Options{Type: Cluster, URL: "one:1,"}, `redis URL address 2 is empty`},
		{Options{Type: Cluster, URL: "one:1,two:0"}, `redis URL address 2 port is not a number from 1 to 65535`},
		{Options{Type: Cluster, URL: "redis://:swordfish@one:1,redis://two:2"}, `redis URL address 2 has another user, password or scheme than the first, allowed are the same for all`},
		{Options{Type: Cluster, URL: "redis://one:1,rediss://two:2"}, `redis URL address 2 has another user, password or scheme than the first, allowed are the same for all`},
		{Options{Type: Cluster, URL: "redis://one:1/0,redis://two:swordfish"}, `redis URL address 2 cannot be understood; in a password, special characters are written as %XX`},
		{Options{Type: Cluster, URL: "one:swordfish,redis://two:2"}, `redis URL address 1 port is not a number from 1 to 65535`},
		{Options{Type: Cluster, URL: "one:1,redis://two:2/3"}, `redis URL address 2 has a database, which is allowed with type single only`},
		{Options{Type: Cluster, URL: "one:1,unix:///run/redis.sock"}, `redis URL address 2 is a unix socket, allowed are host:port and URLs with redis:// or rediss://`},
		{Options{Type: Sentinel, URL: "main,redis://weir@one:1"}, `sentinel user has no password`},
		{Options{Type: Cluster, URL: "/run/redis.sock", SocketType: "unix"}, `redis URL type cluster is reached over tcp only`},
		{Options{URL: "//user:swordfish@redis:6379", SocketType: "unix"}, `redis URL is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it`},
		{Options{URL: "/user:swordfish@redis:6379", SocketType: "unix"}, `redis URL is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it`},
		{Options{URL: "unix:///user:swordfish@redis:6379"}, `redis URL is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it`},
		{Options{URL: "redis:6379", OpTimeout: -time.Second}, `redis op timeout -1s: must not be negative`},
	} {
		client, err := Open(c.options)
		if err == nil {
			t.Errorf("%+v: accepted", c.options)
			client.Close()
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%+v:\n got %v\nwant %s", c.options, err, c.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		url, addr string
		db        int
	}{
		{"redis:6379", "redis:6379", 0},
		{"[::1]:6379", "[::1]:6379", 0},
		{"redis://redis", "redis:6379", 0},
		{"redis://[::1]/2", "[::1]:6379", 2},
		{"rediss://redis:7000/1", "redis:7000", 1},
	} {
		o := Options{URL: c.url}
		u, _, err := o.universal()
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if len(u.Addrs) != 1 || u.Addrs[0] != c.addr || u.DB != c.db {
			t.Errorf("%s: addresses %s, database %d", c.url, u.Addrs, u.DB)
		}
		if u.ReadTimeout != DefaultOpTimeout {
			t.Errorf("%s: a call may take %v, want %v", c.url, u.ReadTimeout, DefaultOpTimeout)
		}
	}
}

// TestLogins reads users and passwords from wherever they may be.
func TestLogins(t *testing.T) {
	type logins struct {
		addresses       string
		db              int
		redis, sentinel login
	}
	for _, c := range []struct {
		options Options
		want    logins
	}{
		{Options{URL: "redis://redis:6379?db=1"}, logins{"[redis:6379]", 1, login{}, login{}}},
		{Options{URL: "redis://redis:6379?password=p+w%26&username=weir&db=2"}, logins{"[redis:6379]", 2, login{"weir", "p w&"}, login{}}},
		{Options{URL: "redis://:first@redis:6379?password=second"}, logins{"[redis:6379]", 0, login{"", "first"}, login{}}},
		{Options{URL: "redis://redis?password=p"}, logins{"[redis:6379]", 0, login{"", "p"}, login{}}},
		{Options{URL: "redis://redis:6379?username=weir", Password: "p"}, logins{"[redis:6379]", 0, login{"weir", "p"}, login{}}},
		{Options{URL: "redis://:url@redis:6379", Username: "weir", Password: "option"}, logins{"[redis:6379]", 0, login{"", "url"}, login{}}},
		{Options{URL: "unix:///run/redis.sock?db=3&password=p"}, logins{"[/run/redis.sock]", 3, login{"", "p"}, login{}}},
		{Options{Type: Cluster, URL: "redis://one:1,redis://two:2"}, logins{"[one:1 two:2]", 0, login{}, login{}}},
		{Options{Type: Cluster, URL: "one:1, two:2"}, logins{"[one:1 two:2]", 0, login{}, login{}}},
		{Options{Type: Cluster, URL: "redis://:p@one:1,redis://two:2?password=p"}, logins{"[one:1 two:2]", 0, login{"", "p"}, login{}}},
		{Options{Type: Sentinel, URL: "main, redis://:s@one:1,redis://:s@two:2", Password: "p"}, logins{"[one:1 two:2]", 0, login{"", "p"}, login{"", "s"}}},
		{Options{Type: Sentinel, URL: "main,one:1", SentinelUsername: "weir", SentinelPassword: "s"}, logins{"[one:1]", 0, login{}, login{"weir", "s"}}},
	} {
		u, _, err := c.options.universal()
		if err != nil {
			t.Errorf("%s: %v", c.options.URL, err)
			continue
		}
		got := logins{fmt.Sprint(u.Addrs), u.DB, login{u.Username, u.Password}, login{u.SentinelUsername, u.SentinelPassword}}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.options.URL, got, c.want)
		}
	}
}
