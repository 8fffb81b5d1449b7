package settings

import "time"

// Listen says where the server listens. Port 0 lets the system choose.
type Listen struct {
	GRPCHost string `name:"grpc-host" env:"GRPC_HOST" default:"0.0.0.0" help:"Address of the gRPC listener, for Envoy."`
	GRPCPort Port   `name:"grpc-port" env:"GRPC_PORT" default:"8081" help:"Port of the gRPC listener."`
	GRPCUDS  string `name:"grpc-uds" env:"GRPC_UDS" placeholder:"PATH" help:"Unix socket for gRPC instead of host and port, for owner and group."`
	Host     string `env:"HOST" default:"0.0.0.0" help:"Address of the HTTP listener: /healthcheck, /json."`
	Port     Port   `env:"PORT" default:"8080" help:"Port of the HTTP listener."`

	DebugHost string `env:"DEBUG_HOST" default:"0.0.0.0" help:"Address of the debug listener, for operators."`
	DebugPort Port   `env:"DEBUG_PORT" default:"6070" help:"Port of the debug listener."`

	AdminTokenFile string `name:"admin-token-file" env:"ADMIN_TOKEN_FILE" placeholder:"PATH" help:"File with a token of 16 to 1024 visible ASCII characters, read again when it changes. Unset, the debug listener shows values of requests and changes anything over loopback only."`

	Proto Proto `env:"PROTO" default:"tcp" help:"tcp is IPv4 and IPv6; tcp4 or tcp6 only one (with tcp6, 0.0.0.0 means ::)."`

	UsePrometheus  Choice  `env:"USE_PROMETHEUS" placeholder:"true|false" help:"Serve metrics at PROMETHEUS_ADDR. Unset is true."`
	PrometheusAddr Address `env:"PROMETHEUS_ADDR" default:":9090" help:"Address of the metrics listener."`
	PrometheusPath URLPath `env:"PROMETHEUS_PATH" default:"/metrics" help:"Path of the metrics."`

	GRPCMaxConnectionAge      time.Duration `name:"grpc-max-connection-age" env:"GRPC_MAX_CONNECTION_AGE" default:"24h" min:"0s" help:"Age at which gRPC connections close, give or take 10 %. 0 is never."`
	GRPCMaxConnectionAgeGrace time.Duration `name:"grpc-max-connection-age-grace" env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h" min:"0s" help:"Time for its calls to finish. 0 is no bound."`
	GRPCMaxConcurrentStreams  int           `name:"grpc-max-concurrent-streams" env:"GRPC_MAX_CONCURRENT_STREAMS" default:"4096" min:"0" max:"4294967295" help:"Most calls at a time on one gRPC connection. 0 is no bound."`
	GRPCReflection            bool          `name:"grpc-reflection" env:"GRPC_REFLECTION" default:"false" help:"List services for clients such as grpcurl."`
}

// ofOneFamily lets 0.0.0.0, which as a default nobody has asked for, mean every
// address where only those of IPv6 are listened on.
func (l *Listen) ofOneFamily() {
	if l.Proto != "tcp6" {
		return
	}
	for _, host := range []*string{&l.GRPCHost, &l.Host, &l.DebugHost} {
		if *host == "0.0.0.0" {
			*host = "::"
		}
	}
}
