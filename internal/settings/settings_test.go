package settings

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// parse reads settings from flags and from exactly the variables in env.
func parse(t *testing.T, env map[string]string, args ...string) (Settings, error) {
	t.Helper()
	var cli struct{ Settings }
	parser := newParser(t, &cli)
	for _, flag := range parser.Model.Flags {
		for _, name := range flag.Envs {
			unset(t, name)
		}
	}
	for _, v := range reference {
		unset(t, v.name)
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	_, err := parser.Parse(args)
	return cli.Settings, err
}

func newParser(t *testing.T, cli any, options ...kong.Option) *kong.Kong {
	t.Helper()
	parser, err := kong.New(cli, append(options, kong.Name("weir"), Parsing())...)
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// unset removes a variable until the test ends.
func unset(t *testing.T, name string) {
	t.Setenv(name, "") // restores the old value at the end
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}

func TestPrecedence(t *testing.T) {
	type env = map[string]string
	login := func(s Settings) any {
		l := s.Redis.Main.Auth.Login()
		return l.User + " " + l.Password
	}
	hosts := func(s Settings) any {
		return strings.Join([]string{s.Listen.GRPCHost, s.Listen.Host, s.Listen.DebugHost}, " ")
	}
	tests := []struct {
		name string
		env  env
		args []string
		get  func(Settings) any
		want any
	}{
		{"default", nil, nil, func(s Settings) any { return s.Listen.Port }, Port(8080)},
		{"variable over default", env{"PORT": "1"}, nil, func(s Settings) any { return s.Listen.Port }, Port(1)},
		{"flag over variable", env{"PORT": "1"}, []string{"--port=2"}, func(s Settings) any { return s.Listen.Port }, Port(2)},
		{"flag over bad variable", env{"PORT": "tcp://10.0.0.1:8080"}, []string{"--port=2"}, func(s Settings) any { return s.Listen.Port }, Port(2)},
		{"empty variable is unset", env{"PORT": ""}, nil, func(s Settings) any { return s.Listen.Port }, Port(8080)},
		{"empty variable of a switch", env{"REDIS_TLS": ""}, nil, func(s Settings) any { return s.Redis.Main.TLS }, false},
		{"empty variable without default", env{"REDIS_SOCKET_TYPE": ""}, nil, func(s Settings) any { return s.Redis.Main.SocketType }, Word("")},
		{"empty path", env{"PROMETHEUS_PATH": ""}, nil, func(s Settings) any { return s.Listen.PrometheusPath }, URLPath("/metrics")},
		{"switch by variable", env{"MERGE_DOMAIN_CONFIG": "TRUE"}, nil, func(s Settings) any { return s.Rules.MergeDomainConfig }, true},
		{"switch by flag", nil, []string{"--merge-domain-config"}, func(s Settings) any { return s.Rules.MergeDomainConfig }, true},
		{"switch off by flag", env{"MERGE_DOMAIN_CONFIG": "true"}, []string{"--merge-domain-config=false"}, func(s Settings) any { return s.Rules.MergeDomainConfig }, false},
		{"letter of a switch", env{"REDIS_TLS": "T"}, nil, func(s Settings) any { return s.Redis.Main.TLS }, true},
		{"letter of a switch by flag", env{"REDIS_TLS": "yes"}, []string{"--redis-tls=f"}, func(s Settings) any { return s.Redis.Main.TLS }, false},
		{"duration", env{"DRAIN_TIMEOUT": "1m30s"}, nil, func(s Settings) any { return s.Process.DrainTimeout }, 90 * time.Second},
		{"level of the reference", env{"LOG_LEVEL": "WARNING"}, nil, func(s Settings) any { return s.Process.LogLevel }, LogLevel(slog.LevelWarn)},
		{"finest level of the reference", env{"LOG_LEVEL": "trace"}, nil, func(s Settings) any { return s.Process.LogLevel }, LogLevel(slog.LevelDebug)},
		{"format in any case", env{"LOG_FORMAT": "JSON"}, nil, func(s Settings) any { return s.Process.LogFormat }, Word("json")},
		{"backend in any case", env{"BACKEND_TYPE": "Redis"}, nil, func(s Settings) any { return s.Store.BackendType }, Word("redis")},
		{"metrics address", env{"PROMETHEUS_ADDR": "127.0.0.1:0"}, nil, func(s Settings) any { return s.Listen.PrometheusAddr }, Address("127.0.0.1:0")},
		{"IPv6 host in brackets", env{"DEBUG_HOST": "[::]"}, nil, func(s Settings) any { return s.Listen.DebugPort.On(s.Listen.DebugHost) }, "[::]:6070"},
		{"unlimited age", env{"GRPC_MAX_CONNECTION_AGE": "0"}, nil, func(s Settings) any { return s.Listen.GRPCMaxConnectionAge }, time.Duration(0)},
		{"unlimited grace", env{"GRPC_MAX_CONNECTION_AGE_GRACE": "0s"}, nil, func(s Settings) any { return s.Listen.GRPCMaxConnectionAgeGrace }, time.Duration(0)},
		{"IPv6 host", nil, []string{"--host=::1", "--port=80"}, func(s Settings) any { return s.Listen.Port.On(s.Listen.Host) }, "[::1]:80"},
		{"every address of IPv6", env{"PROTO": "TCP6"}, nil, hosts, ":: :: ::"},
		{"some addresses of IPv6", env{"PROTO": "tcp6", "GRPC_HOST": "::1"}, []string{"--host="}, hosts, "::1  ::"},
		{"every address of IPv4", env{"PROTO": "tcp4"}, nil, hosts, "0.0.0.0 0.0.0.0 0.0.0.0"},
		{"names of other programs", env{"REDIS_PORT": "tcp://10.0.0.1:6379", "RATELIMIT_PORT": "x"}, nil, func(s Settings) any { return string(s.Redis.Main.URL) }, ""},
		{"user and password", env{"REDIS_AUTH": "pa:ss:word"}, nil, login, "pa ss:word"},
		{"password alone", env{"REDIS_AUTH": "secret"}, nil, login, " secret"},
		{"no password", nil, nil, login, " "},
		{"name of Redis", env{"REDIS_URL": "rediss://me:p@ss@db:6379/1"}, nil, func(s Settings) any { return s.Redis.Main.Name() }, "db:6379/1"},
		{"name of Redis with a query", env{"REDIS_URL": "redis://db:6379?password=secret"}, nil, func(s Settings) any { return s.Redis.Main.Name() }, "redis://db:6379"},
		{"name of plain Redis", env{"REDIS_URL": "db:6379"}, nil, func(s Settings) any { return s.Redis.Main.Name() }, "db:6379"},
		{"socket of a path", env{"REDIS_URL": "/run/redis.sock"}, nil, func(s Settings) any { return s.Redis.Main.Socket() }, "unix"},
		{"socket of an address", env{"REDIS_URL": "db:6379"}, nil, func(s Settings) any { return s.Redis.Main.Socket() }, ""},
		{"socket as given", env{"REDIS_URL": "db:6379", "REDIS_SOCKET_TYPE": "TCP"}, nil, func(s Settings) any { return s.Redis.Main.Socket() }, "tcp"},
		{"choice not set", nil, nil, func(s Settings) any { return s.Store.StopWhenOverLimit }, Choice{}},
		{"empty variable of a choice", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": ""}, nil, func(s Settings) any { return s.Store.StopWhenOverLimit }, Choice{}},
		{"choice for", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "True"}, nil, func(s Settings) any { return s.Store.StopWhenOverLimit }, Choice{Set: true, On: true}},
		{"choice against", nil, []string{"--stop-cache-key-increment-when-overlimit=no"}, func(s Settings) any { return s.Store.StopWhenOverLimit }, Choice{Set: true}},
		{"choice by number", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "0"}, []string{"--stop-cache-key-increment-when-overlimit=1"}, func(s Settings) any { return s.Store.StopWhenOverLimit }, Choice{Set: true, On: true}},
		{"addresses in any case", env{"PROTO": "TCP4"}, nil, func(s Settings) any { return s.Listen.Proto }, Word("tcp4")},
		{"type of Redis", env{"REDIS_TYPE": "Cluster"}, nil, func(s Settings) any { return s.Redis.Main.Type }, Word("cluster")},
		{"failure mode in any case", env{"FAILURE_MODE": "Allow"}, nil, func(s Settings) any { return s.Failure.Mode }, Word("allow")},
		{"no cluster", nil, nil, func(s Settings) any { return s.Redis.Clustered() }, false},
		{"cluster per second, not used", env{"REDIS_PERSECOND_TYPE": "CLUSTER"}, nil, func(s Settings) any { return s.Redis.Clustered() }, false},
		{"cluster per second", env{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:2", "REDIS_PERSECOND_TYPE": "CLUSTER"}, nil, func(s Settings) any { return s.Redis.Clustered() }, true},
		{"twins are apart", env{"REDIS_AUTH": "one", "REDIS_PERSECOND_AUTH": "two"}, nil, func(s Settings) any { return string(s.Redis.Main.Auth + " " + s.Redis.PerSecond.Auth) }, "one two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse(t, tt.env, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.get(s); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestImpossibleValues(t *testing.T) {
	const ports = " is not a port, allowed are 0 to 65535"
	tests := []struct {
		name  string
		env   string // NAME=value
		flag  string
		wants []string
	}{
		{name: "word as port", env: "PORT=http", wants: []string{"PORT", `"http"` + ports}},
		{name: "too large port", flag: "--port=65536", wants: []string{"--port", `"65536"` + ports}},
		{name: "service link", env: "GRPC_PORT=tcp://10.0.0.1:8081", wants: []string{"GRPC_PORT", "--grpc-port", ports, "enableServiceLinks"}},
		{name: "metrics address without port", env: "PROMETHEUS_ADDR=localhost", wants: []string{"PROMETHEUS_ADDR", `"localhost" is not an address, allowed is host:port or :port`}},
		{name: "metrics address with named port", flag: "--prometheus-addr=:http", wants: []string{"--prometheus-addr", `"http"` + ports}},
		{name: "metrics path", env: "PROMETHEUS_PATH=metrics", wants: []string{"PROMETHEUS_PATH", "begins with /"}},
		{name: "metrics path pattern", env: "PROMETHEUS_PATH=/{x", wants: []string{"PROMETHEUS_PATH", "begins with /"}},
		{name: "metrics path not clean", env: "PROMETHEUS_PATH=//metrics", wants: []string{"PROMETHEUS_PATH", "without //"}},
		{name: "header", env: "LIMIT_RESET_HEADER=Reset: now", wants: []string{"LIMIT_RESET_HEADER", `"Reset: now" is not a header name, allowed are letters`}},
		{name: "memcache", env: "BACKEND_TYPE=memcache", wants: []string{"BACKEND_TYPE", "memcache is not supported, allowed is redis"}},
		{name: "other backend", env: "BACKEND_TYPE=etcd", wants: []string{"BACKEND_TYPE", `"etcd" is not a backend, allowed is redis`}},
		{name: "socket type", env: "REDIS_SOCKET_TYPE=udp", wants: []string{"REDIS_SOCKET_TYPE", "allowed are tcp and unix"}},
		{name: "type of Redis", env: "REDIS_TYPE=RING", wants: []string{"REDIS_TYPE", `"RING" is not a type of Redis, allowed are SINGLE, SENTINEL and CLUSTER`}},
		{name: "no connections", env: "REDIS_PERSECOND_POOL_SIZE=0", wants: []string{"REDIS_PERSECOND_POOL_SIZE", "0 is not allowed, allowed is 1 to 10000"}},
		{name: "no time for Redis", env: "REDIS_TIMEOUT=0s", wants: []string{"REDIS_TIMEOUT", "0s is not allowed, allowed is 1ms or more"}},
		{name: "second Redis without a first", env: "REDIS_PERSECOND=true", wants: []string{"REDIS_PERSECOND", "needs $REDIS_URL"}},
		{name: "level", env: "LOG_LEVEL=loud", wants: []string{"LOG_LEVEL", `"loud" is not a log level, allowed are debug, info, warn and error`}},
		{name: "format", env: "LOG_FORMAT=xml", wants: []string{"LOG_FORMAT", `"xml" is not a log format, allowed are text and json`}},
		{name: "switch", env: "REDIS_TLS=maybe", wants: []string{"REDIS_TLS", `"maybe" is no switch, allowed are true, t, yes, 1, false, f, no and 0`}},
		{name: "switch by flag", flag: "--redis-tls=2", wants: []string{"--redis-tls", `"2" is no switch`}},
		{name: "choice of metrics", env: "USE_PROMETHEUS=maybe", wants: []string{"USE_PROMETHEUS", `"maybe" is no switch`}},
		{name: "word as streams", env: "GRPC_MAX_CONCURRENT_STREAMS=x", wants: []string{"GRPC_MAX_CONCURRENT_STREAMS", `"x" is not allowed, allowed are whole numbers, here 0 to 4294967295`}},
		{name: "more than any number", env: "MAX_CONCURRENT_REQUESTS=9223372036854775808", wants: []string{"MAX_CONCURRENT_REQUESTS", `"9223372036854775808" is not allowed, allowed are whole numbers, here 0 or more`}},
		{name: "fewer than no streams", env: "GRPC_MAX_CONCURRENT_STREAMS=-1", wants: []string{"GRPC_MAX_CONCURRENT_STREAMS", "-1 is not allowed, allowed is 0 to 4294967295"}},
		{name: "fewer than no requests", env: "MAX_CONCURRENT_REQUESTS=-1", wants: []string{"MAX_CONCURRENT_REQUESTS", "-1 is not allowed, allowed is 0 or more"}},
		{name: "timeout in the past", env: "REQUEST_TIMEOUT=-1s", wants: []string{"REQUEST_TIMEOUT", "-1s is not allowed, allowed is 0s or more"}},
		{name: "choice", env: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=auto", wants: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", `"auto" is no switch, allowed are true, t, yes, 1, false, f, no and 0`}},
		{name: "duration", env: "REDIS_OP_TIMEOUT=20", wants: []string{"REDIS_OP_TIMEOUT", `"20" is not a duration, allowed are numbers with a unit such as 300ms, 5s or 1m30s, here 1ms to 1m`}},
		{name: "duration by flag", flag: "--drain-delay=soon", wants: []string{"--drain-delay", `"soon" is not a duration`, ", here 0s or more"}},
		{name: "addresses", env: "PROTO=udp", wants: []string{"PROTO", `"udp" is no kind of addresses, allowed are tcp, tcp4 and tcp6`}},
		{name: "failure mode", env: "FAILURE_MODE=close", wants: []string{"FAILURE_MODE", `"close" is not a failure mode, allowed are error, allow, deny and local`}},
		{name: "delay before draining", env: "DRAIN_DELAY=-1s", wants: []string{"--drain-delay ($DRAIN_DELAY): -1s is not allowed, allowed is 0s or more"}},
		{name: "no time to drain", env: "DRAIN_TIMEOUT=0s", wants: []string{"--drain-timeout ($DRAIN_TIMEOUT): 0s is not allowed, allowed is 1ms or more"}},
		{name: "too long", flag: "--redis-op-timeout=1h", wants: []string{"--redis-op-timeout ($REDIS_OP_TIMEOUT): 1h0m0s is not allowed, allowed is 1ms to 1m"}},
		{name: "no descriptors", env: "MAX_DESCRIPTORS=0", wants: []string{"MAX_DESCRIPTORS", "0 is not allowed, allowed is 1 to 10000"}},
		{name: "prefix", env: "CACHE_KEY_PREFIX=a|b", wants: []string{"CACHE_KEY_PREFIX", `"a|b" is not allowed, it may not contain '|'`}},
		{name: "prefix of other bytes", env: "CACHE_KEY_PREFIX=a\xff", wants: []string{"CACHE_KEY_PREFIX", `"a\xff" is not allowed, it must be UTF-8`}},
		{name: "prefix by flag", flag: "--cache-key-prefix=a\xff", wants: []string{"--cache-key-prefix", `"a\xff" is not allowed, it must be UTF-8`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var env map[string]string
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				env = map[string]string{name: value}
			}
			var args []string
			if tt.flag != "" {
				args = []string{tt.flag}
			}
			_, err := parse(t, env, args...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
}

func TestPathOfRules(t *testing.T) {
	tests := []struct {
		name     string
		args     []string
		want     string
		siblings bool
	}{
		{"nothing given", nil, "config", false},
		{"path", []string{"--config=/etc/weir"}, "/etc/weir", false},
		{"root", []string{"--runtime-root=/data"}, "/data/config", false},
		{"subdirectory", []string{"--runtime-subdirectory=ratelimit"}, "/srv/runtime_data/current/ratelimit/config", true},
		{"all of it", []string{"--runtime-root=/data", "--runtime-subdirectory=ratelimit", "--runtime-appdirectory=rules"}, "/data/ratelimit/rules", true},
		{"alone", []string{"--runtime-root=/data", "--runtime-subdirectory=ratelimit", "--runtime-watch-root=false"}, "/data/ratelimit/config", false},
		{"path wins over subdirectory", []string{"--config=here", "--runtime-subdirectory=ratelimit"}, "here", false},
		{"path wins", []string{"--config=here", "--runtime-root=/data"}, "here", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse(t, nil, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Rules.Path(); got != tt.want || s.Rules.WithSiblings() != tt.siblings {
				t.Errorf("got %s (with siblings: %t), want %s (%t)", got, s.Rules.WithSiblings(), tt.want, tt.siblings)
			}
		})
	}
}

func TestSecondRedisNeedsItsOwnURL(t *testing.T) {
	_, err := parse(t, map[string]string{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true"})
	if err == nil || !strings.Contains(err.Error(), "$REDIS_PERSECOND_URL") {
		t.Errorf("got error %v, want one that names the variable", err)
	}
}

func TestSecretShowsNowhere(t *testing.T) {
	s, err := parse(t, map[string]string{
		"REDIS_AUTH": "swordfish", "REDIS_SENTINEL_AUTH": "swordfish", "REDIS_PERSECOND_AUTH": "swordfish", "REDIS_PERSECOND_SENTINEL_AUTH": "swordfish",
	})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("settings", "auth", s.Redis.Main.Auth, "redis", s.Redis.Main, "second", s.Redis.PerSecond)
	for _, text := range []string{log.String(), fmt.Sprintf("%v %+v %#v", s, s, s)} {
		if strings.Contains(text, "swordfish") {
			t.Errorf("shows the password: %s", text)
		}
	}
}
