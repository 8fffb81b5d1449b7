package settings

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"weir/internal/testenv"
)

// parse reads settings from flags and from the variables in env, and from no others.
func parse(t *testing.T, env map[string]string, args ...string) (Settings, error) {
	t.Helper()
	var cli struct{ Settings }
	parser := newParser(t, &cli)
	for _, flag := range parser.Model.Flags {
		for _, name := range flag.Envs {
			unset(t, name)
		}
	}
	for _, v := range ignoredVariables {
		unset(t, v.variable)
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	_, err := parser.Parse(args)
	return cli.Settings, err
}

func newParser(t *testing.T, cli any, options ...kong.Option) *kong.Kong {
	t.Helper()
	return testenv.Must(kong.New(cli, append(options, kong.Name("weir"), Parsing())...))(t)
}

// unset removes a variable until the test ends.
func unset(t *testing.T, name string) {
	t.Setenv(name, "") // restores the old value at the end
	testenv.OK(t, os.Unsetenv(name))
}

// TestSettings sets variables and flags, which take precedence.
func TestSettings(t *testing.T) {
	type env = map[string]string
	hosts := func(s Settings) any {
		return strings.Join([]string{s.Listen.GRPCHost, s.Listen.Host, s.Listen.DebugHost}, " ")
	}
	statsd := func(s Settings) any {
		return fmt.Sprint(s.Metrics.StatsdProtocol, " ", s.Metrics.StatsdPort.On(s.Metrics.StatsdHost), " ", s.Metrics.ExtraTags)
	}
	path := func(s Settings) any { return fmt.Sprint(s.Rules.Path(), " ", s.Rules.WithSiblings()) } // whether siblings are read
	headers := func(s Settings) any {
		values, err := s.XDS.HeaderValues()
		return fmt.Sprint(values, err)
	}
	for _, r := range []struct {
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
		{"empty variable without default", env{"REDIS_SOCKET_TYPE": "", "BACKEND_TYPE": ""}, nil, func(s Settings) any { return s.Redis.Main.SocketType }, Word("")},
		{"switch by variable", env{"MERGE_DOMAIN_CONFIG": "TRUE"}, nil, func(s Settings) any { return s.Rules.MergeDomainConfig }, true},
		{"switch off by flag", env{"MERGE_DOMAIN_CONFIG": "true"}, []string{"--merge-domain-config=false"}, func(s Settings) any { return s.Rules.MergeDomainConfig }, false},
		{"letter of a switch by flag", env{"REDIS_TLS": "yes"}, []string{"--redis-tls=f"}, func(s Settings) any { return s.Redis.Main.TLS }, false},
		{"duration", env{"DRAIN_TIMEOUT": "1m30s"}, nil, func(s Settings) any { return s.Process.DrainTimeout }, 90 * time.Second},
		{"days", env{"DRAIN_TIMEOUT": "1d"}, []string{"--drain-delay=2d1h30m"}, func(s Settings) any { return s.Process.DrainTimeout + s.Process.DrainDelay }, 73*time.Hour + 30*time.Minute},
		{"level of the reference", env{"LOG_LEVEL": "WARNING"}, nil, func(s Settings) any { return s.Process.LogLevel }, Word("warn")},
		{"metrics address", env{"PROMETHEUS_ADDR": "127.0.0.1:0"}, nil, func(s Settings) any { return s.Listen.PrometheusAddr }, "127.0.0.1:0"},
		{"IPv6 host in brackets", env{"DEBUG_HOST": "[::]"}, nil, func(s Settings) any { return s.Listen.DebugPort.On(s.Listen.DebugHost) }, "[::]:6070"},
		{"IPv6 host", nil, []string{"--host=::1", "--port=80"}, func(s Settings) any { return s.Listen.Port.On(s.Listen.Host) }, "[::1]:80"},
		{"every address of IPv6", env{"PROTO": "TCP6"}, nil, hosts, ":: :: ::1"},
		{"some addresses of IPv6", env{"PROTO": "tcp6", "GRPC_HOST": "::1"}, []string{"--host="}, hosts, "::1  ::1"},
		{"operators with a token", env{"ADMIN_TOKEN_FILE": "/token"}, nil, hosts, "0.0.0.0 0.0.0.0 0.0.0.0"},
		{"operators with a token, IPv6", env{"ADMIN_TOKEN_FILE": "/token", "PROTO": "tcp6"}, nil, hosts, ":: :: ::"},
		{"operators everywhere", env{"DEBUG_HOST": "0.0.0.0"}, nil, hosts, "0.0.0.0 0.0.0.0 0.0.0.0"},
		{"empty variable of a choice", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": ""}, nil, func(s Settings) any { return s.Store.StopWhenOverLimit }, Word("")},
		{"memory of denials by default", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "no", "LOCAL_CACHE_SIZE_IN_BYTES": ""}, nil, func(s Settings) any { return s.Redis.DenyCharged }, false},
		{"memory of denials as in the reference", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "no", "LOCAL_CACHE_SIZE_IN_BYTES": "4194304"}, nil, func(s Settings) any { return s.Redis.DenyCharged }, true},
		{"memory of denials by flag", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "false"}, []string{"--local-cache-size-in-bytes=1"}, func(s Settings) any { return s.Redis.DenyCharged }, true},
		{"choice for", env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "True"}, nil, func(s Settings) any { return s.Store.StopWhenOverLimit }, Word("true")},
		{"type of Redis", env{"REDIS_TYPE": "Cluster"}, nil, func(s Settings) any { return s.Redis.Main.Type }, Word("cluster")},
		{"cluster per second", env{"REDIS_URL": "a:1", "REDIS_PERSECOND": "true", "REDIS_PERSECOND_URL": "b:2", "REDIS_PERSECOND_TYPE": "CLUSTER"}, nil, func(s Settings) any { return s.Redis.Clustered() }, true},
		{"statsd by default", nil, nil, statsd, "tcp localhost:8125 []"},
		{"statsd", env{"STATSD_HOST": "::1", "STATSD_PORT": "9125", "STATSD_PROTOCOL": "UDP", "EXTRA_TAGS": "zone:a, commit:1:2,"}, nil, statsd, "udp [::1]:9125 [{commit 1:2} {zone a}]"},
		{"traces by default", nil, nil, func(s Settings) any { return s.Tracing }, Tracing{ExporterProtocol: "http", ServiceName: "RateLimit", SamplingRate: 1}},

		// The path of the rules.
		{"nothing given", nil, nil, path, "config false"},
		{"path", nil, []string{"--config=/etc/weir"}, path, "/etc/weir false"},
		{"root", nil, []string{"--runtime-root=/data"}, path, "/data/config false"},
		{"subdirectory", nil, []string{"--runtime-subdirectory=ratelimit"}, path, "/srv/runtime_data/current/ratelimit/config true"},
		{"all of it", nil, []string{"--runtime-root=/data", "--runtime-subdirectory=ratelimit", "--runtime-appdirectory=rules"}, path, "/data/ratelimit/rules true"},
		{"alone", nil, []string{"--runtime-root=/data", "--runtime-subdirectory=ratelimit", "--runtime-watch-root=false"}, path, "/data/ratelimit/config false"},
		{"path wins", nil, []string{"--config=here", "--runtime-root=/data"}, path, "here false"},

		// The control plane.
		{"files by default", nil, nil, func(s Settings) any { return s.XDS.Enabled() }, false},
		{"control plane", env{"CONFIG_TYPE": "grpc_xds_sotw"}, nil, func(s Settings) any { return s.XDS.Enabled() }, true},
		{"server by default", nil, nil, func(s Settings) any { return s.XDS.ServerURL }, "localhost:18000"},
		{"socket", env{"CONFIG_GRPC_XDS_SERVER_URL": "unix:/run/xds.sock"}, nil, func(s Settings) any { return s.XDS.ServerURL }, "unix:/run/xds.sock"},
		{"short target", env{"CONFIG_GRPC_XDS_SERVER_URL": "dns:cp:18000"}, nil, func(s Settings) any { return s.XDS.ServerURL }, "dns:cp:18000"},
		{"metadata", env{"CONFIG_GRPC_XDS_NODE_METADATA": "zone=a, team=x=y,empty=,"}, nil, func(s Settings) any {
			return maps.Equal(s.XDS.NodeMetadata, NodeMetadata{"zone": "a", "team": "x=y", "empty": ""})
		}, true},
		{"headers", env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "Authorization:Bearer a:b,x-team: y"}, nil, headers, "map[authorization:Bearer a:b x-team:y] <nil>"},
		{"back-off by default", nil, nil, func(s Settings) any { return fmt.Sprint(s.XDS.BackoffInitial, s.XDS.BackoffMax, s.XDS.BackoffSpread()) }, "10s 1m0s 0.5"},
		{"spread", env{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "0.25"}, nil, func(s Settings) any { return s.XDS.BackoffSpread() }, 0.25},
		{"no jitter by flag", nil, []string{"--xds-client-backoff-jitter=no"}, func(s Settings) any { return s.XDS.BackoffSpread() }, 0.0},
	} {
		t.Run(r.name, func(t *testing.T) {
			testenv.Equal(t, r.get(testenv.Must(parse(t, r.env, r.args...))(t)), r.want, "the setting")
		})
	}
}

// TestMisspeltVariables warns of names that are nearly those of settings, hides their values, and
// knows the settings of earlier versions. It does not warn of common variables of other programs.
func TestMisspeltVariables(t *testing.T) {
	s := testenv.Must(parse(t, map[string]string{
		"REDIS_ULR": "swordfish", "redis_url": "x", "LOG_LEVELL": "x", "GRPC_PROT": "x", "MEMORY_MAX_COUNTERS": "5", "REDIS_ATUH": "",
		"HOME": "/", "HOSTNAME": "weir-0", "PATH": "/bin", "PWD": "/", "TERM": "xterm", "LC_ALL": "C", "LANG": "C", "DEBUG": "1", "LOG": "1", "SSL_CERT_FILE": "/x", "POD_NAME": "a", "POD_NAMESPACE": "b",
		"REDIS_PORT": "tcp://10.0.0.1:6379", "REDIS_SERVICE_HOST": "10.0.0.1", "REDIS_SERVICE_PORT": "6379", "REDIS_PORT_6379_TCP_ADDR": "10.0.0.1", "WEIR_PORT": "tcp://10.0.0.2:8081", "WEIR_SERVICE_PORT_GRPC": "8081",
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_PORT": "tcp://10.0.0.1:443", "HTTP_PROXY": "x", "NO_PROXY": "x", "GOMEMLIMIT": "1GiB", "WEIR_SERVER": "x", "WEIR_TOKEN_FILE": "/x", "OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_ENDPOINT": "x",
	}))(t)
	var got []string
	for _, w := range s.Warnings {
		got = append(got, fmt.Sprintf("%s=%s: %s", w.Variable, w.Value, w.Instead))
	}
	slices.Sort(got)
	want := []string{
		"GRPC_PROT=(hidden): did you mean GRPC_PORT?", "LOG_LEVELL=(hidden): did you mean LOG_LEVEL?",
		"MEMORY_MAX_COUNTERS=5: the container's memory limit or GOMEMLIMIT decides",
		"REDIS_ULR=(hidden): did you mean REDIS_URL?", "redis_url=(hidden): did you mean REDIS_URL?",
	}
	testenv.EqualLists(t, got, want, "names")
}

// TestSecretShowsNowhere includes the headers for the control plane, which may contain credentials.
func TestSecretShowsNowhere(t *testing.T) {
	for _, headers := range []string{"authorization:swordfish", "authorization:swordfish\u00fc", "swordfish"} {
		s, err := parse(t, map[string]string{
			"REDIS_AUTH": "swordfish", "REDIS_SENTINEL_AUTH": "swordfish", "REDIS_PERSECOND_AUTH": "swordfish", "REDIS_PERSECOND_SENTINEL_AUTH": "swordfish",
			"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": headers,
		})
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("settings", "auth", s.Redis.Main.Auth, "redis", s.Redis.Main, "second", s.Redis.PerSecond)
		if text := log.String() + fmt.Sprintf("%v %+v %#v %v", s, s, s, err); strings.Contains(text, "swordfish") {
			t.Errorf("shows a secret: %s", text)
		}
	}
}

func TestMogrifiers(t *testing.T) {
	s := testenv.Must(parse(t, map[string]string{
		"USE_DOG_STATSD_MOGRIFIERS":          "B, A",
		"DOG_STATSD_MOGRIFIER_A_PATTERN":     "a(.*)",
		"DOG_STATSD_MOGRIFIER_A_NAME":        "x.$1",
		"DOG_STATSD_MOGRIFIER_A_TAGS":        "t:$1,s:$0",
		"DOG_STATSD_MOGRIFIER_B_PATTERN":     "b",
		"DOG_STATSD_MOGRIFIER_B_NAME":        "y",
		"DOG_STATSD_MOGRIFIER_OTHER_PATTERN": "(",
	}))(t)
	m := s.Metrics.Mogrifiers
	if len(m) != 2 || m[0].Name != "y" || m[0].Tags != nil ||
		m[1].Pattern.String() != "a(.*)" || m[1].Name != "x.$1" || !slices.Equal(m[1].Tags, Tags{{"s", "$0"}, {"t", "$1"}}) {
		t.Errorf("got %+v", m)
	}
}
