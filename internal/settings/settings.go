package settings

import (
	"cmp"
	"path/filepath"
	"time"
)

// Settings has the settings of the command serve. docs/settings.md lists them.
type Settings struct {
	Listen  Listen  `embed:"" group:"Listeners:"`
	TLS     TLS     `embed:"" group:"TLS of the gRPC listener:"`
	Rules   Rules   `embed:"" group:"Rules:"`
	XDS     XDS     `embed:"" group:"Rules by xDS:"`
	Answers Answers `embed:"" group:"Requests and responses:"`
	Store   Store   `embed:"" group:"Counters:"`
	Redis   Redis   `embed:"" group:"Redis:"`
	Failure Failure `embed:"" group:"When Redis fails:"`
	Metrics Metrics `embed:"" group:"Metrics:"`
	Tracing Tracing `embed:"" group:"Traces:"`

	DecisionLog DecisionLog `embed:"" group:"Decision log:"`
	Events      Events      `embed:"" group:"Events:"`

	Process Process `embed:"" group:"Process:"`

	// Warnings are about variables that are set but have no effect.
	Warnings []Warning `kong:"-"`

	// Invalid has the problems of all settings, which AfterApply also returns.
	Invalid error `kong:"-"`
}

// Listen has the addresses of the listeners. If a port is 0, the system chooses one.
type Listen struct {
	GRPCHost string `name:"grpc-host" env:"GRPC_HOST" default:"0.0.0.0" help:"Address of the gRPC listener."`
	GRPCPort Port   `name:"grpc-port" env:"GRPC_PORT" default:"8081" help:"Port of the gRPC listener, for Envoy."`
	GRPCUDS  string `name:"grpc-uds" env:"GRPC_UDS" placeholder:"PATH" help:"Listen on this Unix socket instead; its owner and group may connect."`
	Host     string `env:"HOST" default:"0.0.0.0" help:"Address of /healthcheck and /json."`
	Port     Port   `env:"PORT" default:"8080" help:"Port of /healthcheck and /json."`

	DebugHost string `env:"DEBUG_HOST" placeholder:"ADDRESS" help:"Address of the debug listener, for operators. Unset: 127.0.0.1, or 0.0.0.0 if ADMIN_TOKEN_FILE is set."`
	DebugPort Port   `env:"DEBUG_PORT" default:"6070" help:"Port of the debug listener."`

	AdminTokenFile string `name:"admin-token-file" env:"ADMIN_TOKEN_FILE" placeholder:"PATH" help:"File with the operators' token, 32 to 1024 visible ASCII characters. Without it, only this machine may change things or see values of requests."`

	Proto Word `env:"PROTO" default:"tcp" help:"tcp (IPv4 and IPv6), tcp4, or tcp6 (0.0.0.0 means ::)." words:"tcp,tcp4,tcp6"`

	UsePrometheus  Word   `env:"USE_PROMETHEUS" words:"true|t|yes|1,false|f|no|0" placeholder:"true|false" help:"Serve metrics at PROMETHEUS_ADDR. Unset: true."`
	PrometheusAddr string `env:"PROMETHEUS_ADDR" form:"address" default:":9090" help:"Address of the metrics listener."`
	PrometheusPath string `env:"PROMETHEUS_PATH" form:"path" default:"/metrics" help:"Path of the metrics."`

	GRPCMaxConnectionAge      time.Duration `name:"grpc-max-connection-age" env:"GRPC_MAX_CONNECTION_AGE" default:"24h" min:"0s" help:"Close gRPC connections at this age, within 10 %. 0: never."`
	GRPCMaxConnectionAgeGrace time.Duration `name:"grpc-max-connection-age-grace" env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h" min:"0s" help:"Time for their calls to finish. 0: unlimited."`
	GRPCMaxConcurrentStreams  int           `name:"grpc-max-concurrent-streams" env:"GRPC_MAX_CONCURRENT_STREAMS" default:"200" min:"0" max:"4294967295" help:"Maximum number of concurrent calls on a connection. 0: unlimited."`
}

// TLS configures TLS of the gRPC listener. The files contain PEM and are read again when they
// change.
type TLS struct {
	On        bool   `needs:"GRPC_SERVER_TLS_CERT GRPC_SERVER_TLS_KEY" name:"grpc-server-use-tls" env:"GRPC_SERVER_USE_TLS" default:"false" help:"Use TLS on the gRPC listener. Needs certificate and key."`
	Cert      string `with:"GRPC_SERVER_USE_TLS" name:"grpc-server-tls-cert" env:"GRPC_SERVER_TLS_CERT" placeholder:"FILE" help:"Certificate of the gRPC listener, then intermediate ones."`
	Key       string `with:"GRPC_SERVER_USE_TLS" name:"grpc-server-tls-key" env:"GRPC_SERVER_TLS_KEY" placeholder:"FILE" help:"Key of that certificate."`
	ClientCA  string `with:"GRPC_SERVER_USE_TLS" name:"grpc-client-tls-cacert" env:"GRPC_CLIENT_TLS_CACERT" placeholder:"FILE" help:"Certificate authorities of clients. If set, clients need a certificate from one of them."`
	ClientSAN string `with:"GRPC_SERVER_USE_TLS" needs:"GRPC_CLIENT_TLS_CACERT" name:"grpc-client-tls-san" env:"GRPC_CLIENT_TLS_SAN" placeholder:"NAME" help:"Required name in clients' certificates: DNS name, IP address, URI or email."`
}

// Rules configures where the rules are and how they are loaded.
type Rules struct {
	RulesPath
	Reading

	ForceStart       bool `name:"force-start-without-initial-config" env:"FORCE_START_WITHOUT_INITIAL_CONFIG" default:"false" help:"Start without valid rules; until they load, be healthy (with a control plane: once connected) and answer UNAVAILABLE."`
	HealthNeedsRules bool `name:"healthy-with-at-least-one-config-loaded" env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" default:"false" help:"After such a start, stay unhealthy until rules load."`
}

// RulesPath is the location of the rules.
type RulesPath struct {
	Config              string `env:"CONFIG_PATH" placeholder:"PATH" help:"File or directory of the rules. Unset: config, or RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY if one of the first two is set."`
	RuntimeRoot         string `env:"RUNTIME_ROOT" placeholder:"PATH" help:"Root of the rules. Unset: /srv/runtime_data/current if RUNTIME_SUBDIRECTORY is set."`
	RuntimeSubdirectory string `env:"RUNTIME_SUBDIRECTORY" placeholder:"NAME" help:"Directory in RUNTIME_ROOT."`
	RuntimeAppDirectory string `name:"runtime-appdirectory" env:"RUNTIME_APPDIRECTORY" default:"config" help:"Directory of the rules in RUNTIME_SUBDIRECTORY."`
	RuntimeWatchRoot    bool   `env:"RUNTIME_WATCH_ROOT" default:"true" help:"Also read files beside that directory with its name and a dot, such as config.yaml. Needs RUNTIME_SUBDIRECTORY."`
}

// Reading configures how rules are read.
type Reading struct {
	MergeDomainConfig bool `env:"MERGE_DOMAIN_CONFIG" default:"false" help:"Allow rules of a domain in several files."`
	CalendarMonths    bool `name:"use-calendar-month-rate-limit" env:"USE_CALENDAR_MONTH_RATE_LIMIT" default:"false" help:"Count unit month by calendar months (UTC)."`
}

// XDS configures the control plane, if rules come from one.
type XDS struct {
	ConfigType Word `env:"CONFIG_TYPE" default:"FILE" help:"Source of the rules: FILE, or GRPC_XDS_SOTW for a control plane." words:"FILE,GRPC_XDS_SOTW"`

	ServerURL    string       `form:"target" name:"config-grpc-xds-server-url" env:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000" help:"Control plane: host:port or another gRPC target, such as unix:/run/xds.sock."`
	NodeID       string       `name:"config-grpc-xds-node-id" env:"CONFIG_GRPC_XDS_NODE_ID" default:"default" help:"Node ID sent to the control plane."`
	NodeMetadata NodeMetadata `name:"config-grpc-xds-node-metadata" env:"CONFIG_GRPC_XDS_NODE_METADATA" placeholder:"KEY=VALUE,..." help:"Metadata of that node."`
	Headers      Secret       `name:"config-grpc-xds-client-additional-headers" env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS" placeholder:"NAME:VALUE,..." help:"Headers sent to the control plane."`
	HeadersFile  string       `form:"secret file" name:"config-grpc-xds-client-additional-headers-file" env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS_FILE" placeholder:"FILE" help:"File with these headers, for new streams."`

	UseTLS     bool   `name:"config-grpc-xds-server-use-tls" env:"CONFIG_GRPC_XDS_SERVER_USE_TLS" default:"false" help:"Use TLS to the control plane."`
	ClientCert string `with:"CONFIG_GRPC_XDS_SERVER_USE_TLS" needs:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY" name:"config-grpc-xds-client-tls-cert" env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT" placeholder:"PATH" help:"Client certificate for it."`
	ClientKey  string `with:"CONFIG_GRPC_XDS_SERVER_USE_TLS" needs:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT" name:"config-grpc-xds-client-tls-key" env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY" placeholder:"PATH" help:"Key of that certificate."`
	ServerCA   string `with:"CONFIG_GRPC_XDS_SERVER_USE_TLS" name:"config-grpc-xds-server-tls-cacert" env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT" placeholder:"PATH" help:"Its certificate authorities. Unset: the system's."`
	ServerSAN  string `with:"CONFIG_GRPC_XDS_SERVER_USE_TLS" name:"config-grpc-xds-server-tls-san" env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN" placeholder:"NAME" help:"Name in its certificate. Unset: the host of its address."`

	MaxMessageSize int           `name:"xds-client-max-msg-size-in-bytes" env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" default:"4194304" min:"0" max:"2147483647" help:"Largest response of the control plane. 0: the default."`
	RetryInterval  time.Duration `name:"config-grpc-xds-server-connect-retry-interval" env:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" default:"3s" min:"1ms" help:"Wait after a failed connection, doubled each time; time between rejections after the first four."`
	BackoffInitial time.Duration `name:"xds-client-backoff-initial-interval" env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s" min:"1ms" help:"Wait after a broken stream, doubled each time."`
	BackoffMax     time.Duration `name:"xds-client-backoff-max-interval" env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s" min:"1ms" help:"Longest of these waits."`
	BackoffRandom  float64       `min:"0" max:"1" name:"xds-client-backoff-random-factor" env:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5" help:"Random share of these waits, 0 to 1."`
	BackoffJitter  bool          `name:"xds-client-backoff-jitter" env:"XDS_CLIENT_BACKOFF_JITTER" default:"true" help:"Randomize these waits."`
}

// Answers bounds the accepted requests and configures the contents of responses.
type Answers struct {
	MaxConcurrentRequests int           `env:"MAX_CONCURRENT_REQUESTS" default:"0" min:"0" help:"Maximum number of concurrent requests; others get RESOURCE_EXHAUSTED (/json: 503). 0: unlimited."`
	RequestTimeout        time.Duration `env:"REQUEST_TIMEOUT" default:"0s" min:"0s" help:"Longest time for a decision. 0: the caller's deadline and REDIS_TIMEOUT."`

	Modes

	ResponseHeaders bool   `name:"limit-response-headers-enabled" env:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false" help:"Let Envoy add the next three headers to responses."`
	LimitHeader     string `form:"header" name:"limit-limit-header" env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit" help:"Header for the limit."`
	RemainingHeader string `form:"header" name:"limit-remaining-header" env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining" help:"Header for what is left."`
	ResetHeader     string `form:"header" name:"limit-reset-header" env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset" help:"Header for the seconds until the full limit is available."`

	RequestHeaders         bool   `name:"limit-request-headers-enabled" env:"LIMIT_REQUEST_HEADERS_ENABLED" default:"false" help:"Let Envoy add headers to upstream requests."`
	RequestLimitHeader     string `form:"header" name:"limit-request-limit-header" env:"LIMIT_REQUEST_LIMIT_HEADER" default:"RateLimit-Limit" help:"Like LIMIT_LIMIT_HEADER."`
	RequestRemainingHeader string `form:"header" name:"limit-request-remaining-header" env:"LIMIT_REQUEST_REMAINING_HEADER" default:"RateLimit-Remaining" help:"Like LIMIT_REMAINING_HEADER."`
	RequestResetHeader     string `form:"header" name:"limit-request-reset-header" env:"LIMIT_REQUEST_RESET_HEADER" default:"RateLimit-Reset" help:"Like LIMIT_RESET_HEADER."`

	QuotaShareLife time.Duration `env:"QUOTA_SHARE_LIFE" default:"15s" min:"6s" max:"1h" help:"How long an Envoy may use its share of a limit with quota_service after its last report, which Envoys send every 5 s."`

	DynamicMetadata bool `name:"response-dynamic-metadata" env:"RESPONSE_DYNAMIC_METADATA" default:"false" help:"Add descriptors, denying limits and rule metadata for Envoy's access log and filters."`
}

// Modes are switches that change every response.
type Modes struct {
	ShadowMode bool `env:"SHADOW_MODE" default:"false" help:"Deny nothing. Requests are counted; only statuses show what would be denied."`
	QuotaMode  bool `env:"QUOTA_MODE" default:"false" help:"Deny only what exceeds all its limits, as with quota_mode everywhere."`

	QuotaGroupKeys []string `env:"QUOTA_GROUP_KEYS" default:"backend_name,model_name_override" placeholder:"KEY,..." help:"Entries whose values group the quotas of a request."`
}

// Store configures the counters.
type Store struct {
	BackendType Word `env:"BACKEND_TYPE" placeholder:"redis" help:"Only redis. Without REDIS_URL, counters are in memory." words:"redis"`

	Keys
	Charging
}

// Keys configures the spelling of counters' keys.
type Keys struct {
	CacheKeyPrefix     string `form:"prefix" env:"CACHE_KEY_PREFIX" placeholder:"PREFIX" help:"Prefix of all keys, to keep deployments on one Redis apart. Without '|', in a cluster without '{'."`
	CacheKeyHashValues bool   `env:"CACHE_KEY_HASH_VALUES" default:"false" help:"Hash descriptor values in keys, for privacy."`
}

// Charging configures whether denied requests are counted.
type Charging struct {
	StopWhenOverLimit Word `words:"true|t|yes|1,false|f|no|0" name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" placeholder:"true|false" help:"true: never count denied requests; false: always, and a peek at a used-up limit passes; unset: only with hits_addend. A limit's charge takes precedence."`
}

// Failure configures the decisions while Redis fails.
type Failure struct {
	Mode Word `name:"failure-mode" env:"FAILURE_MODE" default:"error" help:"Default failure_mode of limits while Redis is unavailable: error (UNAVAILABLE), allow, deny, or local (count in this server)." words:"error,allow,deny,local"`
}

// Metrics configures metrics and statsd. The listener for Prometheus is in Listen.
type Metrics struct {
	NearLimitRatio float64 `min:"0" max:"1" env:"NEAR_LIMIT_RATIO" default:"0.8" help:"Share of a limit from which use counts as near_limit, 0 to 1."`

	UseStatsd          Word          `words:"true|t|yes|1,false|f|no|0" env:"USE_STATSD" placeholder:"true|false" help:"Send metrics to statsd. Unset: if it listens and USE_DOG_STATSD is not true."`
	StatsdHost         string        `env:"STATSD_HOST" default:"localhost" help:"Host of statsd or DogStatsD."`
	StatsdPort         Port          `env:"STATSD_PORT" default:"8125" help:"Port of statsd or DogStatsD."`
	StatsdProtocol     Word          `env:"STATSD_PROTOCOL" default:"tcp" help:"tcp or udp to statsd. DogStatsD uses udp." words:"tcp,udp"`
	StatsFlushInterval time.Duration `env:"STATS_FLUSH_INTERVAL" default:"10s" min:"10ms" max:"1h" help:"Time between reports to statsd."`
	ExtraTags          Tags          `env:"EXTRA_TAGS" placeholder:"NAME:VALUE,..." help:"Tags of all metrics sent, as name:value,..."`

	UseDogStatsd        bool     `name:"use-dog-statsd" env:"USE_DOG_STATSD" default:"false" help:"Send metrics to DogStatsD."`
	DogStatsdMogrifiers []string `name:"use-dog-statsd-mogrifiers" env:"USE_DOG_STATSD_MOGRIFIERS" placeholder:"NAME,..." help:"Rules that turn names into tags; the first match counts. Each has DOG_STATSD_MOGRIFIER_NAME_PATTERN, DOG_STATSD_MOGRIFIER_NAME_NAME, DOG_STATSD_MOGRIFIER_NAME_TAGS."`
	DisableStats        bool     `env:"DISABLE_STATS" default:"false" help:"Send nothing to statsd or DogStatsD."`

	// Mogrifiers has the rules that DogStatsdMogrifiers names, in the same order.
	Mogrifiers []Mogrifier `kong:"-"`
}

// Tracing configures traces. OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_ENDPOINT
// and OTEL_EXPORTER_OTLP_HEADERS, set the collector's address and credentials.
type Tracing struct {
	Enabled           bool    `name:"tracing-enabled" env:"TRACING_ENABLED" default:"false" help:"Send traces of gRPC calls by OTLP to OTEL_EXPORTER_OTLP_ENDPOINT."`
	ExporterProtocol  Word    `name:"tracing-exporter-protocol" env:"TRACING_EXPORTER_PROTOCOL" default:"http" help:"OTLP over http or grpc." words:"http,grpc"`
	ServiceName       string  `name:"tracing-service-name" env:"TRACING_SERVICE_NAME" default:"RateLimit" help:"Name of this service in traces."`
	ServiceNamespace  string  `name:"tracing-service-namespace" env:"TRACING_SERVICE_NAMESPACE" placeholder:"NAME" help:"Namespace of that name."`
	ServiceInstanceID string  `name:"tracing-service-instance-id" env:"TRACING_SERVICE_INSTANCE_ID" placeholder:"ID" help:"Name of this server in traces. Unset: a random UUID."`
	SamplingRate      float64 `min:"0" max:"1" name:"tracing-sampling-rate" env:"TRACING_SAMPLING_RATE" default:"1" help:"Share of traces begun here to send, 0 to 1."`
}

// DecisionLog configures which decisions are logged, and where. The collector is the same as for
// traces.
type DecisionLog struct {
	Decisions Word `name:"decision-log" env:"DECISION_LOG" default:"off" help:"Decisions to log as JSON: off, denied (also what only shadow mode let pass) or all." words:"off,denied,all"`
	Rate      int  `name:"decision-log-rate" env:"DECISION_LOG_RATE" default:"100" min:"1" max:"1000000" help:"Maximum number of records a second; others are counted."`
	To        Word `name:"decision-log-to" env:"DECISION_LOG_TO" default:"stdout" help:"stdout, or otlp for the collector of traces." words:"stdout,otlp"`
}

// Events configures where events of reached thresholds are sent.
type Events struct {
	URL      string `form:"endpoint" name:"events-url" env:"EVENTS_URL" placeholder:"URL" help:"Where to POST a CloudEvent when a counter reaches a percentage in notify. Unset: nowhere."`
	Auth     Secret `name:"events-auth" env:"EVENTS_AUTH" placeholder:"VALUE" help:"Header Authorization of events, such as Bearer TOKEN."`
	AuthFile string `with:"EVENTS_URL" form:"secret file" name:"events-auth-file" env:"EVENTS_AUTH_FILE" placeholder:"FILE" help:"File with this header, for the next events."`
}

// Process configures the log and the end of the process.
type Process struct {
	LogLevel     Word          `env:"LOG_LEVEL" default:"info" help:"Least severe messages to log: debug, info, warn or error." words:"debug|trace,info,warn|warning,error|fatal|panic"`
	LogFormat    Word          `env:"LOG_FORMAT" default:"text" help:"text, or json with the fields @timestamp, level and @message." words:"text,json"`
	DrainDelay   time.Duration `env:"DRAIN_DELAY" default:"10s" min:"0s" help:"Time after SIGTERM to fail health checks and still serve. SIGINT or a second signal ends it."`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" default:"10s" min:"1ms" help:"After DRAIN_DELAY, time for open requests to finish."`
}

// Path returns the path of the file or directory of the rules.
func (r RulesPath) Path() string {
	switch {
	case r.Config != "":
		return r.Config
	case r.RuntimeRoot == "" && r.RuntimeSubdirectory == "":
		return "config"
	}
	return filepath.Join(cmp.Or(r.RuntimeRoot, "/srv/runtime_data/current"), r.RuntimeSubdirectory, r.RuntimeAppDirectory)
}

// WithSiblings reports whether rules are also read from entries beside the path whose names are
// its name, a dot and a suffix, such as config.yaml beside config.
func (r RulesPath) WithSiblings() bool {
	return r.Config == "" && r.RuntimeSubdirectory != "" && r.RuntimeWatchRoot
}

// Named returns the names of the settings that determined the path.
func (r RulesPath) Named() string {
	if r.Config == "" && (r.RuntimeRoot != "" || r.RuntimeSubdirectory != "") {
		return "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY"
	}
	return "--config, CONFIG_PATH"
}

// Enabled reports whether the rules come from a control plane.
func (x XDS) Enabled() bool { return x.ConfigType == "GRPC_XDS_SOTW" }

// BackoffSpread returns the random share by which waits vary, 0 to 1.
func (x XDS) BackoffSpread() float64 {
	if !x.BackoffJitter {
		return 0
	}
	return x.BackoffRandom
}
