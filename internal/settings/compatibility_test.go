package settings

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"weir/internal/testenv"
)

// counterpart is a variable of envoyproxy/ratelimit. Whether it is honoured
// follows from the settings; if it is, differs and proof are needed, if it is
// not, why not: instead, the variable that it goes with, or a warning.
type counterpart struct {
	name     string
	standard string // its default there
	with     string // variable without which it means nothing
	readWith string // setting that it is read with, because its name holds one that is chosen there
	differs  string // what it does otherwise here, as a clause
	instead  string // what happens if it is ignored
	proof    string // the test that holds Weir to it
}

const (
	together   = "requests that arrive during a call share the next"
	untilThere = "Weir looks for Redis every 2 s"
	waits      = "a call waits for a connection"
)

// counterparts are all variables that the reference reads, in the order of its
// settings: those of its code and those that its README adds. Names of tests are not
// in the document: TestProofsExist reads them.
var counterparts = []counterpart{
	{name: "PROTO", standard: "tcp", proof: "TestAllAddresses"},
	{name: "HOST", standard: "0.0.0.0", proof: "TestListenersAreWhereTheSettingsSay"},
	{name: "PORT", standard: "8080", proof: "TestListenersAreWhereTheSettingsSay"},
	{name: "DEBUG_HOST", standard: "0.0.0.0", differs: "unset: 127.0.0.1 unless `ADMIN_TOKEN_FILE` is set", proof: "TestListenersAreWhereTheSettingsSay"},
	{name: "DEBUG_PORT", standard: "6070", proof: "TestListenersAreWhereTheSettingsSay"},
	{name: "GRPC_UDS", proof: "TestUnixSocket"},
	{name: "GRPC_HOST", standard: "0.0.0.0", proof: "TestListenersAreWhereTheSettingsSay"},
	{name: "GRPC_PORT", standard: "8081", proof: "TestListenersAreWhereTheSettingsSay"},
	{name: "GRPC_MAX_CONNECTION_AGE", standard: "24h", proof: "TestConnectionsAge"},
	{name: "GRPC_MAX_CONNECTION_AGE_GRACE", standard: "1h", proof: "TestConnectionsAge"},
	{name: "GRPC_MAX_CONCURRENT_STREAMS", standard: "0", differs: "default 200", proof: "TestStreamsOfAConnection"},
	{name: "GRPC_SERVER_USE_TLS", standard: "false", proof: "TestMutualTLS"},
	{name: "GRPC_SERVER_TLS_CERT", with: "GRPC_SERVER_USE_TLS", proof: "TestMutualTLS"},
	{name: "GRPC_SERVER_TLS_KEY", with: "GRPC_SERVER_USE_TLS", proof: "TestMutualTLS"},
	{name: "GRPC_CLIENT_TLS_CACERT", proof: "TestMutualTLS"},
	{name: "GRPC_CLIENT_TLS_SAN", proof: "TestMutualTLS"},
	{name: "MAX_CONCURRENT_REQUESTS", standard: "0", proof: "TestBoundOfConcurrentRequests"},
	{name: "REQUEST_TIMEOUT", standard: "0", differs: "UNAVAILABLE, a little earlier", proof: "TestBoundOfTheDuration"},

	{name: "LOG_LEVEL", standard: "WARN", differs: "default info", proof: "TestPrecedence"},
	{name: "LOG_FORMAT", standard: "text", proof: "TestLogAsJSON"},

	{name: "CONFIG_TYPE", standard: "FILE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{name: "FORCE_START_WITHOUT_INITIAL_CONFIG", standard: "false", differs: "UNAVAILABLE until rules load", proof: "TestForcedStartWithoutRules"},
	{name: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", standard: "false", differs: "only after a forced start", proof: "TestForcedStartWithoutRules"},
	{name: "CONFIG_GRPC_XDS_NODE_ID", standard: "default", with: "CONFIG_TYPE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{name: "CONFIG_GRPC_XDS_NODE_METADATA", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{name: "CONFIG_GRPC_XDS_SERVER_URL", standard: "localhost:18000", with: "CONFIG_TYPE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{name: "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", standard: "3s", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{name: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", with: "CONFIG_TYPE", proof: "TestControlPlaneHeaders"},
	{name: "CONFIG_GRPC_XDS_SERVER_USE_TLS", standard: "false", with: "CONFIG_TYPE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{name: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", with: "CONFIG_TYPE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{name: "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", with: "CONFIG_TYPE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{name: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", with: "CONFIG_TYPE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{name: "CONFIG_GRPC_XDS_SERVER_TLS_SAN", with: "CONFIG_TYPE", proof: "TestTLSToControlPlane"},
	{name: "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", standard: "10s", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{name: "XDS_CLIENT_BACKOFF_MAX_INTERVAL", standard: "60s", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{name: "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", standard: "0.5", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{name: "XDS_CLIENT_BACKOFF_JITTER", standard: "true", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{name: "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", standard: "4194304", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{name: "DESCRIPTOR_KEY_CONFIG"},
	{name: "RUNTIME_ROOT", standard: "/srv/runtime_data/current", differs: "if `RUNTIME_SUBDIRECTORY` is unset: `config`", proof: "TestReloadOnChange"},
	{name: "RUNTIME_SUBDIRECTORY", differs: "a missing directory is an error", proof: "TestReloadOnChange"},
	{name: "RUNTIME_APPDIRECTORY", standard: "config", proof: "TestPathOfRules"},
	{name: "RUNTIME_IGNOREDOTFILES", standard: "false", instead: "dot files are never read"},
	{name: "RUNTIME_WATCH_ROOT", standard: "true", differs: "all directories are watched", proof: "TestRulesWithoutSiblings"},
	{name: "MERGE_DOMAIN_CONFIG", standard: "false", proof: "TestMergedDomains"},

	{name: "USE_STATSD", standard: "true", differs: "unset: if a server listens", proof: "TestStatsd"},
	{name: "STATSD_HOST", standard: "localhost", with: "USE_STATSD", proof: "TestStatsd"},
	{name: "STATSD_PORT", standard: "8125", with: "USE_STATSD", proof: "TestStatsd"},
	{name: "STATS_FLUSH_INTERVAL", standard: "10s", with: "USE_STATSD", proof: "TestStatsd"},
	{name: "USE_DOG_STATSD", standard: "false", proof: "TestDogStatsD"},
	{name: "USE_DOG_STATSD_MOGRIFIERS", with: "USE_DOG_STATSD", proof: "TestDogStatsD"},
	{name: "DOG_STATSD_MOGRIFIER_NAME_PATTERN", with: "USE_DOG_STATSD", readWith: "USE_DOG_STATSD_MOGRIFIERS", proof: "TestDogStatsD"},
	{name: "DOG_STATSD_MOGRIFIER_NAME_NAME", with: "USE_DOG_STATSD", readWith: "USE_DOG_STATSD_MOGRIFIERS", proof: "TestDogStatsD"},
	{name: "DOG_STATSD_MOGRIFIER_NAME_TAGS", with: "USE_DOG_STATSD", readWith: "USE_DOG_STATSD_MOGRIFIERS", proof: "TestDogStatsD"},
	{name: "EXTRA_TAGS", proof: "TestDogStatsD"},
	{name: "DISABLE_STATS", standard: "false", proof: "TestStatsd"},
	{name: "USE_PROMETHEUS", standard: "false", differs: "unset: served", proof: "TestListenersToDoWithout"},
	{name: "PROMETHEUS_ADDR", standard: ":9090", proof: "TestListenersAreWhereTheSettingsSay"},
	{name: "PROMETHEUS_PATH", standard: "/metrics", proof: "TestServes"},
	{name: "PROMETHEUS_MAPPER_YAML"},
	{name: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", standard: "false"},
	{name: "SANITIZE_DESCRIPTOR_METRIC_DOTS", standard: "false", instead: "dots do not break metric labels"},
	{name: "NEAR_LIMIT_RATIO", standard: "0.8", proof: "TestNearLimitRatioIsASetting"},

	{name: "SHADOW_MODE", standard: "false", proof: "TestSettingsOfAnswers"},
	{name: "QUOTA_MODE", standard: "false", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_RESPONSE_HEADERS_ENABLED", standard: "false", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_LIMIT_HEADER", standard: "RateLimit-Limit", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_REMAINING_HEADER", standard: "RateLimit-Remaining", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_RESET_HEADER", standard: "RateLimit-Reset", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_REQUEST_HEADERS_ENABLED", standard: "false", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_REQUEST_LIMIT_HEADER", standard: "RateLimit-Limit", with: "LIMIT_REQUEST_HEADERS_ENABLED", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_REQUEST_REMAINING_HEADER", standard: "RateLimit-Remaining", with: "LIMIT_REQUEST_HEADERS_ENABLED", proof: "TestSettingsOfAnswers"},
	{name: "LIMIT_REQUEST_RESET_HEADER", standard: "RateLimit-Reset", with: "LIMIT_REQUEST_HEADERS_ENABLED", proof: "TestSettingsOfAnswers"},
	{name: "RESPONSE_DYNAMIC_METADATA", standard: "false", proof: "TestSettingsOfAnswers"},

	{name: "BACKEND_TYPE", standard: "redis", differs: "no memcache", proof: "TestImpossibleValues"},
	{name: "CACHE_KEY_PREFIX", differs: "no pipe character; other keys", proof: "TestRedisCluster"},
	{name: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", standard: "false", differs: "unset: [`auto`](rules.md#what-happens-to-a-denied-request). With `false`, each denial asks Redis: `over_limit_with_local_cache` stays 0", proof: "TestChargeAsSet"},
	{name: "EXPIRATION_JITTER_MAX_SECONDS", standard: "300", instead: "counters expire with their window"},
	{name: "LOCAL_CACHE_SIZE_IN_BYTES", standard: "0", differs: "default 4194304; for one second", proof: "TestDenyMemoryIsASetting"},
	{name: "USE_CALENDAR_MONTH_RATE_LIMIT", standard: "false", proof: "TestCalendarMonths"},

	{name: "REDIS_SOCKET_TYPE", standard: "unix", differs: "unset: as `REDIS_URL` says", proof: "TestIstioEnvironmentServesEnvoy"},
	{name: "REDIS_TYPE", standard: "SINGLE", proof: "TestRedisCluster"},
	{name: "REDIS_URL", standard: "/var/run/nutcracker/ratelimit.sock", differs: "unset: counters in memory", proof: "TestIstioEnvironmentServesEnvoy"},
	{name: "REDIS_AUTH", proof: "TestRedisCluster"},
	{name: "REDIS_SENTINEL_AUTH", with: "REDIS_TYPE", proof: "TestRedisSentinel"},
	{name: "REDIS_TLS", standard: "false", proof: "TestRedisTLS"},
	{name: "REDIS_TLS_CLIENT_CERT", proof: "TestRedisTLS"},
	{name: "REDIS_TLS_CLIENT_KEY", proof: "TestRedisTLS"},
	{name: "REDIS_TLS_CACERT", proof: "TestRedisTLS"},
	{name: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", standard: "false", proof: "TestRedisTLS"},
	{name: "REDIS_TIMEOUT", standard: "10s", differs: "default 1s, within [the deadline](operations.md#when-redis-fails)", proof: "TestBothRedis"},
	{name: "REDIS_POOL_SIZE", standard: "10", differs: "clusters only; unset: as needed", proof: "TestBothRedis"},
	{name: "REDIS_POOL_ON_EMPTY_BEHAVIOR", standard: "WAIT", instead: waits},
	{name: "REDIS_POOL_ON_EMPTY_WAIT_DURATION", standard: "1s", instead: waits},
	{name: "REDIS_PIPELINE_WINDOW", standard: "0", instead: together},
	{name: "REDIS_PIPELINE_LIMIT", standard: "0", instead: together},
	{name: "REDIS_USE_EXPLICIT_PIPELINE", standard: "false", instead: together},
	{name: "REDIS_CLUSTER_PIPELINE_PARALLELISM", standard: "1", instead: together},
	{name: "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR", standard: "false", instead: "Weir always leaves a replica"},
	{name: "REDIS_STARTUP_INITIAL_INTERVAL", standard: "1s", instead: untilThere},
	{name: "REDIS_STARTUP_MAX_INTERVAL", standard: "30s", instead: untilThere},
	{name: "REDIS_STARTUP_MAX_ELAPSED_TIME", standard: "0", instead: untilThere},
	{name: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", standard: "false", proof: "TestRedisComesAndGoes"},
	{name: "REDIS_PERSECOND", standard: "false", proof: "TestRedisPerSecond"},
	{name: "REDIS_PERSECOND_SOCKET_TYPE", standard: "unix", with: "REDIS_PERSECOND", differs: "unset: by the form of the URL", proof: "TestBothRedis"},
	{name: "REDIS_PERSECOND_TYPE", standard: "SINGLE", with: "REDIS_PERSECOND", proof: "TestBothRedis"},
	{name: "REDIS_PERSECOND_URL", standard: "/var/run/nutcracker/ratelimitpersecond.sock", with: "REDIS_PERSECOND", differs: "must be set", proof: "TestRedisPerSecond"},
	{name: "REDIS_PERSECOND_AUTH", with: "REDIS_PERSECOND", proof: "TestRedisPerSecond"},
	{name: "REDIS_PERSECOND_SENTINEL_AUTH", with: "REDIS_PERSECOND", proof: "TestBothRedis"},
	{name: "REDIS_PERSECOND_TLS", standard: "false", with: "REDIS_PERSECOND", proof: "TestBothRedis"},
	{name: "REDIS_PERSECOND_TIMEOUT", standard: "10s", with: "REDIS_PERSECOND", differs: "as `REDIS_TIMEOUT`", proof: "TestBothRedis"},
	{name: "REDIS_PERSECOND_POOL_SIZE", standard: "10", with: "REDIS_PERSECOND", differs: "as `REDIS_POOL_SIZE`", proof: "TestBothRedis"},
	{name: "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", standard: "WAIT", with: "REDIS_PERSECOND"},
	{name: "REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION", standard: "1s", with: "REDIS_PERSECOND"},
	{name: "REDIS_PERSECOND_PIPELINE_WINDOW", standard: "0", with: "REDIS_PERSECOND"},
	{name: "REDIS_PERSECOND_PIPELINE_LIMIT", standard: "0", with: "REDIS_PERSECOND"},
	{name: "REDIS_PERSECOND_USE_EXPLICIT_PIPELINE", standard: "false", with: "REDIS_PERSECOND"},
	{name: "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", standard: "1", with: "REDIS_PERSECOND"},

	{name: "MEMCACHE_HOST_PORT", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_MAX_IDLE_CONNS", standard: "2", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_SRV", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_SRV_REFRESH", standard: "0", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_TLS", standard: "false", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_TLS_CLIENT_CERT", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_TLS_CLIENT_KEY", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_TLS_CACERT", with: "BACKEND_TYPE"},
	{name: "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", standard: "false", with: "BACKEND_TYPE"},

	{name: "TRACING_ENABLED", standard: "false", proof: "TestTraces"},
	{name: "TRACING_EXPORTER_PROTOCOL", standard: "http", with: "TRACING_ENABLED", proof: "TestTraces"},
	{name: "TRACING_SERVICE_NAME", standard: "RateLimit", with: "TRACING_ENABLED", proof: "TestTraces"},
	{name: "TRACING_SERVICE_NAMESPACE", with: "TRACING_ENABLED", proof: "TestTraces"},
	{name: "TRACING_SERVICE_INSTANCE_ID", with: "TRACING_ENABLED", proof: "TestTraces"},
	{name: "TRACING_SAMPLING_RATE", standard: "1", with: "TRACING_ENABLED", proof: "TestTraces"},
}

const compatibilityDocument = "../../docs/compatibility.md"

const compatibilityIntroduction = `# Variables of envoyproxy/ratelimit

<!-- Written by: go test ./internal/settings -update -->

All environment variables of [envoyproxy/ratelimit](https://github.com/envoyproxy/ratelimit) mean the same here, except these. What is said of ` + "`REDIS_...` applies to `REDIS_PERSECOND_...`, too" + `. [What else differs](../MIGRATING.md#what-is-different).
`

// TestCompatibilityDocument keeps docs/compatibility.md and the settings the same.
func TestCompatibilityDocument(t *testing.T) {
	settings, others := map[string]*kong.Flag{}, map[string]ignored{}
	for _, flag := range flags(t) {
		settings[flag.Envs[0]] = flag
	}
	for _, v := range ignoredVariables {
		others[v.variable] = v
	}
	var differs, warns string
	var reasons []string // for which variables are ignored, in their order
	without := map[string][]string{}
	for _, c := range counterparts {
		flag, isSetting := settings[c.name]
		other, warned := others[c.name]
		second := strings.HasPrefix(c.name, "REDIS_PERSECOND_") // of which the document says nothing
		switch {
		case isSetting && c.proof == "":
			t.Errorf("%s is a setting, but no test is named that proves it", c.name)
		case isSetting && c.differs == "" && !sameDefault(c.standard, flag.Default):
			t.Errorf("%s: the default is %q, that of the reference %q, and nothing says so", c.name, flag.Default, c.standard)
		case isSetting && c.differs != "" && !second:
			differs += fmt.Sprintf("|`%s`|%s|%s|\n", c.name, code(c.standard), c.differs)
		case isSetting, second, c.readWith != "":
		case warned:
			asks := map[string]string{"": "is set", "false": "is true"}[other.silent]
			warns += fmt.Sprintf("|`%s`|%s|%s|\n", c.name, cmp.Or(asks, "is not "+other.silent), other.instead)
		case c.instead == "" && c.with == "":
			t.Errorf("%s is neither a setting nor is said why it is not honoured", c.name)
		default:
			reason, name := cmp.Or(c.instead, fmt.Sprintf("only for another `%s`", c.with)), code(c.name)
			if strings.HasPrefix(c.name, "MEMCACHE_") {
				name = code("MEMCACHE_...")
			}
			if without[reason] == nil {
				reasons = append(reasons, reason)
			}
			if !slices.Contains(without[reason], name) {
				without[reason] = append(without[reason], name)
			}
		}
	}
	want := compatibilityIntroduction +
		"\n## Different\n\n|variable|default there|here|\n|---|---|---|\n" + differs +
		"\n## Ignored, with a warning\n\n|variable|if it|here|\n|---|---|---|\n" + warns +
		"\n## Ignored\n\n|variables|why|\n|---|---|\n"
	for _, reason := range reasons {
		want += fmt.Sprintf("|%s|%s|\n", strings.Join(without[reason], ", "), reason)
	}
	compareDocument(t, compatibilityDocument, want)
}

// sameDefault reports whether two defaults mean the same: 0 and 0s do.
func sameDefault(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "s"), strings.TrimSuffix(b, "s"))
}

// TestProofsExist looks into the files of the tests that the table names for the variables
// that they prove, or their flags.
func TestProofsExist(t *testing.T) {
	proofs, settings := testFiles(t), map[string]string{}
	for _, flag := range flags(t) {
		settings[flag.Envs[0]] = "--" + flag.Name
	}
	for _, c := range counterparts {
		flag, isSetting := settings[c.name]
		named := regexp.MustCompile(`(^|[^-\w])(` + c.name + `|` + flag + `)($|[^-\w])`)
		if isSetting && c.proof != "" && !slices.ContainsFunc(proofs[c.proof], named.MatchString) {
			t.Errorf("%s: there is no test %s in a file that names %s or %s", c.name, c.proof, c.name, flag)
		}
	}
}

// testFiles maps the name of each test of the module to the text of its file. A name may be
// that of several.
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	files, test := map[string][]string{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	testenv.OK(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range test.FindAllStringSubmatch(string(text), -1) {
			files[found[1]] = append(files[found[1]], string(text))
		}
		return err
	}))
	return files
}

// TestDefaultsOfTheReferenceAreAccepted starts from the environment of one who
// has spelled all defaults out.
func TestDefaultsOfTheReferenceAreAccepted(t *testing.T) {
	env := map[string]string{}
	for _, c := range counterparts {
		env[c.name] = c.standard
	}
	s := testenv.Must(parse(t, env))(t)
	for _, w := range s.Warnings {
		t.Errorf("a default of the reference is warned of: %+v", w)
	}
}
