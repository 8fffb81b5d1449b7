// Package settings holds every setting of the server once, as a struct that
// the command line parser fills from flags and environment variables.
//
// A flag wins over its variable, a variable over the default, and a variable
// that is set to nothing counts as unset. Names and defaults are those of
// envoyproxy/ratelimit where it has the setting; what it has beyond them is in
// reference.go, because to ignore some of it would be unsafe. Other variables
// are ignored. The package reads nothing else and starts nothing.
package settings

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"time"
)

// Settings are the settings of the command serve. docs/settings.md lists them.
type Settings struct {
	Listen  Listen  `embed:"" group:"Listeners:"`
	Rules   Rules   `embed:"" group:"Rules:"`
	Answers Answers `embed:"" group:"Requests and answers:"`
	Store   Store   `embed:"" group:"Counters:"`
	Process Process `embed:"" group:"Process:"`

	// Warnings tell of variables of envoyproxy/ratelimit that have no effect.
	Warnings []Warning `kong:"-"`
}

// Listen says where the server listens. Port 0 lets the system choose.
type Listen struct {
	GRPCHost string `name:"grpc-host" env:"GRPC_HOST" default:"0.0.0.0" help:"Host or address of the gRPC listener, which Envoy asks."`
	GRPCPort Port   `name:"grpc-port" env:"GRPC_PORT" default:"8081" help:"Port of the gRPC listener." unit:"port"`
	Host     string `env:"HOST" default:"0.0.0.0" help:"Host or address of the HTTP listener: /healthcheck and /json."`
	Port     Port   `env:"PORT" default:"8080" help:"Port of the HTTP listener." unit:"port"`

	DebugHost string `env:"DEBUG_HOST" default:"0.0.0.0" help:"Host or address of the debug listener: status page, /rlconfig, /-/reload and profiles."`
	DebugPort Port   `env:"DEBUG_PORT" default:"6070" help:"Port of the debug listener." unit:"port"`

	PrometheusAddr Address `env:"PROMETHEUS_ADDR" default:":9090" help:"Address of the metrics listener." unit:"host:port"`
	PrometheusPath URLPath `env:"PROMETHEUS_PATH" default:"/metrics" help:"Path of the metrics."`

	GRPCMaxConnectionAge      time.Duration `name:"grpc-max-connection-age" env:"GRPC_MAX_CONNECTION_AGE" default:"24h" min:"1s" help:"Age at which a gRPC connection is asked to close, give or take 10 %."`
	GRPCMaxConnectionAgeGrace time.Duration `name:"grpc-max-connection-age-grace" env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h" min:"1s" help:"Time that calls on such a connection have to finish."`
}

// Rules says where the rules are and how they are loaded.
type Rules struct {
	Config              string `env:"CONFIG_PATH" placeholder:"PATH" help:"File or directory of the rules. By default the directory 'config', or the one that the runtime settings name if --runtime-root or --runtime-subdirectory is set."`
	RuntimeRoot         string `env:"RUNTIME_ROOT" placeholder:"PATH" help:"Rules are in ROOT/SUBDIRECTORY/APPDIRECTORY. By default /srv/runtime_data/current, if --runtime-subdirectory is set."`
	RuntimeSubdirectory string `env:"RUNTIME_SUBDIRECTORY" placeholder:"NAME" help:"See --runtime-root."`
	RuntimeAppDirectory string `name:"runtime-appdirectory" env:"RUNTIME_APPDIRECTORY" default:"config" help:"See --runtime-root."`

	MergeDomainConfig  bool          `env:"MERGE_DOMAIN_CONFIG" default:"false" help:"Let several files hold rules of one domain."`
	ForceStart         bool          `name:"force-start-without-initial-config" env:"FORCE_START_WITHOUT_INITIAL_CONFIG" default:"false" help:"Start even if the rules are missing or bad. Until some are loaded the answer is UNAVAILABLE and the health check fails."`
	ConfigPollInterval time.Duration `env:"CONFIG_POLL_INTERVAL" default:"5s" min:"100ms" help:"How often the rules are compared with their files, in case a file system tells of no changes."`
}

// Path is the file or directory of the rules.
func (r Rules) Path() string {
	switch {
	case r.Config != "":
		return r.Config
	case r.RuntimeRoot != "" || r.RuntimeSubdirectory != "":
		root := r.RuntimeRoot
		if root == "" {
			root = "/srv/runtime_data/current"
		}
		return filepath.Join(root, r.RuntimeSubdirectory, r.RuntimeAppDirectory)
	default:
		return "config"
	}
}

// Answers says which requests are taken and what an answer carries.
type Answers struct {
	MaxDescriptors int `env:"MAX_DESCRIPTORS" default:"100" min:"1" max:"10000" help:"Most descriptors of one request; a request with more is refused." unit:"descriptors"`

	ResponseHeaders bool       `name:"limit-response-headers-enabled" env:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false" help:"Let Envoy add these headers to the response."`
	LimitHeader     HeaderName `name:"limit-limit-header" env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit" help:"Name of the header that holds the limit."`
	RemainingHeader HeaderName `name:"limit-remaining-header" env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining" help:"Name of the header that holds what is left of it."`
	ResetHeader     HeaderName `name:"limit-reset-header" env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset" help:"Name of the header that holds the seconds until the limit is whole again."`

	DynamicMetadata bool `name:"response-dynamic-metadata" env:"RESPONSE_DYNAMIC_METADATA" default:"false" help:"Add domain, descriptors and metadata of the rules to the answer, for Envoy's access log."`
}

// Store says where the counters are kept and what they count.
type Store struct {
	BackendType Backend `env:"BACKEND_TYPE" default:"redis" help:"Only 'redis' is supported."`

	RedisURL        string        `name:"redis-url" env:"REDIS_URL" placeholder:"URL" help:"Redis that keeps the counters: host:port, path of a unix socket, or a redis://, rediss:// or unix:// URL. Without it counters are kept in memory."`
	RedisSocketType SocketType    `env:"REDIS_SOCKET_TYPE" placeholder:"tcp|unix" help:"How to reach a Redis that is not given as a URL. By default unix for a path, tcp otherwise."`
	RedisAuth       Secret        `env:"REDIS_AUTH" placeholder:"PASSWORD" help:"Password of Redis, or user:password."`
	RedisTLS        bool          `name:"redis-tls" env:"REDIS_TLS" default:"false" help:"Reach Redis over TLS."`
	RedisOpTimeout  time.Duration `env:"REDIS_OP_TIMEOUT" default:"100ms" min:"1ms" max:"1m" help:"Longest that a decision waits for Redis. It waits less if the deadline of the request comes first."`

	CacheKeyPrefix     string `env:"CACHE_KEY_PREFIX" placeholder:"PREFIX" help:"Start of every counter's key, to keep deployments apart that share a Redis. May not contain '|'."`
	CacheKeyHashValues bool   `env:"CACHE_KEY_HASH_VALUES" default:"false" help:"Spell descriptor values in keys as digests, for privacy."`

	StopWhenOverLimit Choice `name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" placeholder:"true|false" help:"Whether a denied request is kept out of the counters: true, always; false, never, as by default in envoyproxy/ratelimit. If it is not set, only a descriptor with its own hits_addend, such as the tokens of an answer, is counted although its request is denied. The field charge of a limit wins." unit:"switch"`

	// RedisVariables are those that say how to use a Redis, if RedisURL names none.
	RedisVariables []string `kong:"-"`

	MemoryMaxCounters int `env:"MEMORY_MAX_COUNTERS" default:"1000000" min:"1000" help:"Most counters kept in memory, 200 to 300 bytes each, up to 500 while new ones push out old ones. Beyond it, those nearest to the end of their window are given up." unit:"counters"`
}

// RedisSocket is the kind of socket at RedisURL, empty if that says it itself.
func (s Store) RedisSocket() string {
	if s.RedisSocketType == "" && strings.HasPrefix(s.RedisURL, "/") {
		return "unix"
	}
	return string(s.RedisSocketType)
}

// RedisName is where Redis is, without what may be a password.
func (s Store) RedisName() string {
	return s.RedisURL[strings.LastIndexByte(s.RedisURL, '@')+1:]
}

// RedisLogin takes the user, which may be empty, and the password from RedisAuth.
func (s Store) RedisLogin() (user, password string) {
	user, password, found := strings.Cut(string(s.RedisAuth), ":")
	if !found {
		return "", string(s.RedisAuth)
	}
	return user, password
}

// RedisTLSConfig is nil unless Redis is reached over TLS.
func (s Store) RedisTLSConfig() *tls.Config {
	if !s.RedisTLS {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// Process says how the process logs and ends.
type Process struct {
	LogLevel     LogLevel      `env:"LOG_LEVEL" default:"info" help:"Least severe messages that are logged: debug, info, warn or error."`
	LogFormat    LogFormat     `env:"LOG_FORMAT" default:"text" help:"Format of the log: text or json."`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" default:"10s" min:"1ms" help:"How long requests in flight may take to finish after SIGTERM or SIGINT."`
}
