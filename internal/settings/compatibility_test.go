package settings

import (
	"cmp"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"weir/internal/testenv"
)

// counterpart describes variables of envoyproxy/ratelimit that Weir treats alike. If a variable is
// a setting, the field proof must be set, and also differs if it behaves differently. Otherwise,
// the field instead or with must be set, or the variable must cause a warning.
type counterpart struct {
	names    string // the variables, each with = and its default there, if it has one
	with     string // the variable that decides whether they have an effect
	readWith string // the setting whose value is part of their names
	differs  string // the difference in Weir, as a clause
	instead  string // Weir's behaviour if it ignores them
	proof    string // the name of their test
}

// variables yields each variable with its default.
func (c counterpart) variables() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for variable := range strings.FieldsSeq(c.names) {
			if name, standard, _ := strings.Cut(variable, "="); !yield(name, standard) {
				return
			}
		}
	}
}

const (
	together   = "requests that arrive during a call share the next"
	untilThere = "Weir looks for Redis every 2 s"
	waits      = "a call waits for a connection"
)

// counterparts are all variables that the reference's code reads or its README names, in the order
// of its settings. The document omits the names of tests; TestProofsExist checks them.
var counterparts = []counterpart{
	{names: "PROTO=tcp", proof: "TestAllAddresses"},
	{names: "HOST=0.0.0.0 PORT=8080 DEBUG_PORT=6070 GRPC_HOST=0.0.0.0 GRPC_PORT=8081 PROMETHEUS_ADDR=:9090", proof: "TestListenersAreWhereTheSettingsSay"},
	{names: "DEBUG_HOST=0.0.0.0", differs: "unset: 127.0.0.1 unless `ADMIN_TOKEN_FILE` is set", proof: "TestListenersAreWhereTheSettingsSay"},
	{names: "GRPC_UDS", proof: "TestUnixSocket"},
	{names: "GRPC_MAX_CONNECTION_AGE=24h GRPC_MAX_CONNECTION_AGE_GRACE=1h", proof: "TestSpecialValues"},
	{names: "GRPC_MAX_CONCURRENT_STREAMS=0", differs: "default 200", proof: "TestStreamsOfAConnection"},
	{names: "GRPC_SERVER_USE_TLS=false GRPC_CLIENT_TLS_CACERT GRPC_CLIENT_TLS_SAN", proof: "TestMutualTLS"},
	{names: "GRPC_SERVER_TLS_CERT GRPC_SERVER_TLS_KEY", with: "GRPC_SERVER_USE_TLS", proof: "TestMutualTLS"},
	{names: "MAX_CONCURRENT_REQUESTS=0", proof: "TestBoundOfConcurrentRequests"},
	{names: "REQUEST_TIMEOUT=0", differs: "UNAVAILABLE, a little earlier", proof: "TestBoundOfTheDuration"},
	{names: "LOG_LEVEL=WARN", differs: "default info", proof: "TestSettings"},
	{names: "LOG_FORMAT=text", proof: "TestExitCodes"},
	{names: "CONFIG_TYPE=FILE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{names: "FORCE_START_WITHOUT_INITIAL_CONFIG=false", differs: "UNAVAILABLE until rules load", proof: "TestForcedStartWithoutRules"},
	{names: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=false", differs: "only after a forced start", proof: "TestForcedStartWithoutRules"},
	{names: "CONFIG_GRPC_XDS_NODE_ID=default CONFIG_GRPC_XDS_SERVER_URL=localhost:18000 CONFIG_GRPC_XDS_SERVER_USE_TLS=false " +
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT CONFIG_GRPC_XDS_CLIENT_TLS_KEY CONFIG_GRPC_XDS_SERVER_TLS_CACERT", with: "CONFIG_TYPE", proof: "TestEnvoyGatewayEnvironmentServesEnvoy"},
	{names: "CONFIG_GRPC_XDS_NODE_METADATA CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=3s XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=10s " +
		"XDS_CLIENT_BACKOFF_MAX_INTERVAL=60s XDS_CLIENT_BACKOFF_RANDOM_FACTOR=0.5 XDS_CLIENT_BACKOFF_JITTER=true " +
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=4194304", with: "CONFIG_TYPE", proof: "TestControlPlaneOptions"},
	{names: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", with: "CONFIG_TYPE", proof: "TestControlPlaneHeaders"},
	{names: "CONFIG_GRPC_XDS_SERVER_TLS_SAN", with: "CONFIG_TYPE", proof: "TestTLSToControlPlane"},
	{names: "DESCRIPTOR_KEY_CONFIG"},
	{names: "RUNTIME_ROOT=/srv/runtime_data/current", differs: "if `RUNTIME_SUBDIRECTORY` is unset: `config`", proof: "TestReloadOnChange"},
	{names: "RUNTIME_SUBDIRECTORY", differs: "a missing directory is an error", proof: "TestReloadOnChange"},
	{names: "RUNTIME_APPDIRECTORY=config", proof: "TestSettings"},
	{names: "RUNTIME_IGNOREDOTFILES=false", instead: "dot files are never read"},
	{names: "RUNTIME_WATCH_ROOT=true", differs: "all directories are watched", proof: "TestRulesWithoutSiblings"},
	{names: "MERGE_DOMAIN_CONFIG=false", proof: "TestMergedDomains"},
	{names: "USE_STATSD=true", differs: "unset: if a server listens", proof: "TestStatsd"},
	{names: "STATSD_HOST=localhost STATSD_PORT=8125 STATS_FLUSH_INTERVAL=10s", with: "USE_STATSD", proof: "TestStatsd"},
	{names: "USE_DOG_STATSD=false EXTRA_TAGS", proof: "TestDogStatsD"},
	{names: "USE_DOG_STATSD_MOGRIFIERS", with: "USE_DOG_STATSD", proof: "TestDogStatsD"},
	{names: "DOG_STATSD_MOGRIFIER_NAME_PATTERN DOG_STATSD_MOGRIFIER_NAME_NAME DOG_STATSD_MOGRIFIER_NAME_TAGS", with: "USE_DOG_STATSD", readWith: "USE_DOG_STATSD_MOGRIFIERS", proof: "TestDogStatsD"},
	{names: "DISABLE_STATS=false", proof: "TestStatsd"},
	{names: "USE_PROMETHEUS=false", differs: "unset: served", proof: "TestListenersToDoWithout"},
	{names: "PROMETHEUS_PATH=/metrics", proof: "TestServes"},
	{names: "PROMETHEUS_MAPPER_YAML PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS=false"},
	{names: "SANITIZE_DESCRIPTOR_METRIC_DOTS=false", instead: "dots do not break metric labels"},
	{names: "NEAR_LIMIT_RATIO=0.8", proof: "TestNearLimitRatioIsASetting"},
	{names: "SHADOW_MODE=false QUOTA_MODE=false LIMIT_RESPONSE_HEADERS_ENABLED=false LIMIT_LIMIT_HEADER=RateLimit-Limit " +
		"LIMIT_REMAINING_HEADER=RateLimit-Remaining LIMIT_RESET_HEADER=RateLimit-Reset LIMIT_REQUEST_HEADERS_ENABLED=false " +
		"RESPONSE_DYNAMIC_METADATA=false", proof: "TestSettingsOfAnswers"},
	{names: "LIMIT_REQUEST_LIMIT_HEADER=RateLimit-Limit LIMIT_REQUEST_REMAINING_HEADER=RateLimit-Remaining " +
		"LIMIT_REQUEST_RESET_HEADER=RateLimit-Reset", with: "LIMIT_REQUEST_HEADERS_ENABLED", proof: "TestSettingsOfAnswers"},
	{names: "BACKEND_TYPE=redis", differs: "no memcache", proof: "TestImpossibleValues"},
	{names: "CACHE_KEY_PREFIX", differs: "no pipe character; other keys", proof: "TestRedisCluster"},
	{names: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=false", differs: "unset: [`auto`](rules.md#what-happens-to-a-denied-request)", proof: "TestChargeAsSet"},
	{names: "EXPIRATION_JITTER_MAX_SECONDS=300", instead: "counters expire with their window"},
	{names: "LOCAL_CACHE_SIZE_IN_BYTES=0", differs: "default 4194304; for one second", proof: "TestDenyMemoryIsASetting"},
	{names: "USE_CALENDAR_MONTH_RATE_LIMIT=false", proof: "TestCalendarMonths"},
	{names: "REDIS_SOCKET_TYPE=unix", differs: "unset: as `REDIS_URL` says", proof: "TestIstioEnvironmentServesEnvoy"},
	{names: "REDIS_TYPE=SINGLE REDIS_AUTH", proof: "TestRedisCluster"},
	{names: "REDIS_URL=/var/run/nutcracker/ratelimit.sock", differs: "unset: counters in memory", proof: "TestIstioEnvironmentServesEnvoy"},
	{names: "REDIS_SENTINEL_AUTH", with: "REDIS_TYPE", proof: "TestPasswordsWithColons"},
	{names: "REDIS_TLS=false REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY REDIS_TLS_CACERT REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=false", proof: "TestRedisTLS"},
	{names: "REDIS_TIMEOUT=10s", differs: "default 1s, within [the deadline](operations.md#when-redis-fails)", proof: "TestBothRedis"},
	{names: "REDIS_POOL_SIZE=10", differs: "clusters only; unset: as needed", proof: "TestBothRedis"},
	{names: "REDIS_POOL_ON_EMPTY_BEHAVIOR=WAIT REDIS_POOL_ON_EMPTY_WAIT_DURATION=1s", instead: waits},
	{names: "REDIS_PIPELINE_WINDOW=0 REDIS_PIPELINE_LIMIT=0 REDIS_USE_EXPLICIT_PIPELINE=false REDIS_CLUSTER_PIPELINE_PARALLELISM=1", instead: together},
	{names: "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR=false", instead: "Weir always leaves a replica"},
	{names: "REDIS_STARTUP_INITIAL_INTERVAL=1s REDIS_STARTUP_MAX_INTERVAL=30s REDIS_STARTUP_MAX_ELAPSED_TIME=0", instead: untilThere},
	{names: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=false", proof: "TestRedisComesAndGoes"},
	{names: "REDIS_PERSECOND=false", proof: "TestRedisPerSecond"},
	{names: "REDIS_PERSECOND_SOCKET_TYPE=unix", with: "REDIS_PERSECOND", differs: "unset: by the form of the URL", proof: "TestBothRedis"},
	{names: "REDIS_PERSECOND_TYPE=SINGLE REDIS_PERSECOND_SENTINEL_AUTH REDIS_PERSECOND_TLS=false", with: "REDIS_PERSECOND", proof: "TestBothRedis"},
	{names: "REDIS_PERSECOND_URL=/var/run/nutcracker/ratelimitpersecond.sock", with: "REDIS_PERSECOND", differs: "must be set", proof: "TestRedisPerSecond"},
	{names: "REDIS_PERSECOND_AUTH", with: "REDIS_PERSECOND", proof: "TestRedisPerSecond"},
	{names: "REDIS_PERSECOND_TIMEOUT=10s", with: "REDIS_PERSECOND", differs: "as `REDIS_TIMEOUT`", proof: "TestBothRedis"},
	{names: "REDIS_PERSECOND_POOL_SIZE=10", with: "REDIS_PERSECOND", differs: "as `REDIS_POOL_SIZE`", proof: "TestBothRedis"},
	{names: "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR=WAIT REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION=1s " +
		"REDIS_PERSECOND_PIPELINE_WINDOW=0 REDIS_PERSECOND_PIPELINE_LIMIT=0 REDIS_PERSECOND_USE_EXPLICIT_PIPELINE=false " +
		"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM=1", with: "REDIS_PERSECOND"},
	{names: "MEMCACHE_HOST_PORT MEMCACHE_MAX_IDLE_CONNS=2 MEMCACHE_SRV MEMCACHE_SRV_REFRESH=0 MEMCACHE_TLS=false " +
		"MEMCACHE_TLS_CLIENT_CERT MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION=false", with: "BACKEND_TYPE"},
	{names: "TRACING_ENABLED=false", proof: "TestTraces"},
	{names: "TRACING_EXPORTER_PROTOCOL=http TRACING_SERVICE_NAME=RateLimit TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID " +
		"TRACING_SAMPLING_RATE=1", with: "TRACING_ENABLED", proof: "TestTraces"},
}

const compatibilityDocument = "../../docs/compatibility.md"

const compatibilityIntroduction = `# Variables of envoyproxy/ratelimit

<!-- Written by: go test ./internal/settings -update -->

All environment variables of [envoyproxy/ratelimit](https://github.com/envoyproxy/ratelimit) mean the same here, except these. What is said of ` + "`REDIS_...` applies to `REDIS_PERSECOND_...`, too" + `. [What else differs](../MIGRATING.md#what-is-different).
`

// TestCompatibilityDocument compares docs/compatibility.md with the settings.
func TestCompatibilityDocument(t *testing.T) {
	settings, others := map[string]*kong.Flag{}, map[string]ignored{}
	for _, flag := range flags(t) {
		settings[flag.Envs[0]] = flag
	}
	for _, v := range ignoredVariables {
		others[v.variable] = v
	}
	var differs, warns string
	var reasons []string // for ignored variables, in their order
	without := map[string][]string{}
	for _, c := range counterparts {
		for name, standard := range c.variables() {
			flag, isSetting := settings[name]
			other, warned := others[name]
			second := strings.HasPrefix(name, "REDIS_PERSECOND_") // the document omits these
			switch {
			case isSetting && c.proof == "":
				t.Errorf("%s is a setting, but no test is named that proves it", name)
			case isSetting && c.differs == "" && !strings.EqualFold(strings.TrimSuffix(standard, "s"), strings.TrimSuffix(flag.Default, "s")): // 0 and 0s are the same
				t.Errorf("%s: the default is %q, that of the reference %q, and nothing says so", name, flag.Default, standard)
			case isSetting && c.differs != "" && !second:
				differs += fmt.Sprintf("|`%s`|%s|%s|\n", name, code(standard), c.differs)
			case isSetting, second, c.readWith != "":
			case warned:
				asks := map[string]string{"": "is set", "false": "is true"}[other.silent]
				warns += fmt.Sprintf("|`%s`|%s|%s|\n", name, cmp.Or(asks, "is not "+other.silent), other.instead)
			case c.instead == "" && c.with == "":
				t.Errorf("%s is neither a setting nor is said why it is not honoured", name)
			default:
				reason, name := cmp.Or(c.instead, fmt.Sprintf("only for another `%s`", c.with)), code(name)
				if strings.HasPrefix(name, "`MEMCACHE_") {
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
	}
	want := compatibilityIntroduction +
		"\n## Different\n\n|variable|default there|here|\n|---|---|---|\n" + differs +
		"\n## Ignored, with a warning\n\n|variable|if it|here|\n|---|---|---|\n" + warns +
		"\n## Ignored\n\n|variables|why|\n|---|---|\n"
	for _, reason := range reasons {
		want += fmt.Sprintf("|%s|%s|\n", strings.Join(without[reason], ", "), reason)
	}
	testenv.Golden(t, compatibilityDocument, want)
}

// TestProofsExist checks that the file of each test in the table contains the variable that the test
// proves, or its flag.
func TestProofsExist(t *testing.T) {
	proofs := testFiles(t)
	for _, flag := range flags(t) {
		for _, c := range counterparts {
			for name := range c.variables() {
				named := regexp.MustCompile(`(^|[^-\w])(` + name + `|--` + flag.Name + `)($|[^-\w])`)
				if name == flag.Envs[0] && c.proof != "" && !slices.ContainsFunc(proofs[c.proof], named.MatchString) {
					t.Errorf("%s: there is no test %s in a file that names %s or --%s", name, c.proof, name, flag.Name)
				}
			}
		}
	}
}

// testFiles maps the name of each test of the module to the texts of the files that have a test of
// that name.
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

// TestDefaultsOfTheReferenceAreAccepted sets every variable of the reference to its default.
func TestDefaultsOfTheReferenceAreAccepted(t *testing.T) {
	env := map[string]string{}
	for _, c := range counterparts {
		maps.Insert(env, c.variables())
	}
	s := testenv.Must(parse(t, env))(t)
	for _, w := range s.Warnings {
		t.Errorf("a default of the reference is warned of: %+v", w)
	}
}
