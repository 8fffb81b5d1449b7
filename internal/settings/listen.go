package settings

import "time"

// Listen says where the server listens. Port 0 lets the system choose.
type Listen struct {
	GRPCHost string `name:"grpc-host" env:"GRPC_HOST" default:"0.0.0.0" help:"Host or address of the gRPC listener, which Envoy asks."`
	GRPCPort Port   `name:"grpc-port" env:"GRPC_PORT" default:"8081" help:"Port of the gRPC listener." unit:"port"`
	GRPCUDS  string `name:"grpc-uds" env:"GRPC_UDS" placeholder:"PATH" help:"Unix socket of the gRPC listener, instead of host and port. Owner and group may use it."`
	Host     string `env:"HOST" default:"0.0.0.0" help:"Host or address of the HTTP listener: /healthcheck and /json."`
	Port     Port   `env:"PORT" default:"8080" help:"Port of the HTTP listener." unit:"port"`

	DebugHost string `env:"DEBUG_HOST" default:"0.0.0.0" help:"Host or address of the debug listener: status page, /rlconfig, /stats, /-/reload and profiles."`
	DebugPort Port   `env:"DEBUG_PORT" default:"6070" help:"Port of the debug listener." unit:"port"`

	Proto Proto `env:"PROTO" default:"tcp" help:"Addresses of the listeners: 'tcp' is all, 'tcp4' is IPv4 only, 'tcp6' is IPv6 only, where a host 0.0.0.0 means ::."`

	UsePrometheus  Choice  `env:"USE_PROMETHEUS" placeholder:"true|false" help:"Serve metrics at the next address. If it is not set, they are. The debug listener has them in any case, at /stats." unit:"switch"`
	PrometheusAddr Address `env:"PROMETHEUS_ADDR" default:":9090" help:"Address of the metrics listener." unit:"host:port"`
	PrometheusPath URLPath `env:"PROMETHEUS_PATH" default:"/metrics" help:"Path of the metrics."`

	GRPCMaxConnectionAge      time.Duration `name:"grpc-max-connection-age" env:"GRPC_MAX_CONNECTION_AGE" default:"24h" min:"0s" help:"Age at which a gRPC connection is asked to close, give or take 10 %. 0 is never."`
	GRPCMaxConnectionAgeGrace time.Duration `name:"grpc-max-connection-age-grace" env:"GRPC_MAX_CONNECTION_AGE_GRACE" default:"1h" min:"0s" help:"Time that calls on such a connection have to finish. 0 is as long as they take."`
	GRPCMaxConcurrentStreams  int           `name:"grpc-max-concurrent-streams" env:"GRPC_MAX_CONCURRENT_STREAMS" default:"4096" min:"0" max:"4294967295" help:"Most calls at a time on one gRPC connection. Clients wait with more. 0 is any number." unit:"calls"`
	GRPCReflection            bool          `name:"grpc-reflection" env:"GRPC_REFLECTION" default:"false" help:"Tell gRPC clients such as grpcurl which services and messages there are."`
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
