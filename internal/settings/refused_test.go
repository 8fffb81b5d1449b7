package settings

import (
	"fmt"
	"strings"
	"testing"
)

// TestImpossibleValues holds errors to what is wrong, the setting, and what is allowed. No
// error shows a secret.
func TestImpossibleValues(t *testing.T) {
	type env = map[string]string
	const ports = " is not a port; use 0 to 65535"
	tests := []struct {
		env   env
		flag  string
		wants []string
	}{
		{env: env{"PORT": "http"}, wants: []string{"PORT", `"http"` + ports}},
		{flag: "--port=65536", wants: []string{"--port", `"65536"` + ports}},
		{env: env{"GRPC_PORT": "tcp://10.0.0.1:8081"}, wants: []string{"GRPC_PORT", "--grpc-port", ports, "enableServiceLinks"}},
		{env: env{"PROMETHEUS_ADDR": "localhost"}, wants: []string{"PROMETHEUS_ADDR", `"localhost" is not an address; use host:port or :port`}},
		{flag: "--prometheus-addr=:http", wants: []string{"--prometheus-addr", `"http"` + ports}},
		{env: env{"PROMETHEUS_PATH": "metrics"}, wants: []string{"PROMETHEUS_PATH", "start with /"}},
		{env: env{"PROMETHEUS_PATH": "//metrics"}, wants: []string{"PROMETHEUS_PATH", "must not contain //"}},
		{env: env{"LIMIT_RESET_HEADER": "Reset: now"}, wants: []string{"LIMIT_RESET_HEADER", `"Reset: now" is not a header name; use letters`}},
		{env: env{"BACKEND_TYPE": "memcache"}, wants: []string{"BACKEND_TYPE", "memcache is not supported; use redis"}},
		{env: env{"BACKEND_TYPE": "etcd"}, wants: []string{"BACKEND_TYPE", `"etcd" is not allowed; use one of redis`}},
		{env: env{"REDIS_SOCKET_TYPE": "udp"}, wants: []string{"REDIS_SOCKET_TYPE", "use one of tcp, unix"}},
		{env: env{"REDIS_TYPE": "RING"}, wants: []string{"REDIS_TYPE", `"RING" is not allowed; use one of SINGLE, SENTINEL, CLUSTER`}},
		{env: env{"REDIS_PERSECOND_POOL_SIZE": "-1"}, wants: []string{"REDIS_PERSECOND_POOL_SIZE", "-1 is not allowed; use 0 to 10000"}},
		{env: env{"REDIS_TIMEOUT": "0s"}, wants: []string{"REDIS_TIMEOUT", "0s is not allowed; use 1ms or more"}},
		{env: env{"REDIS_PERSECOND": "true"}, wants: []string{"REDIS_PERSECOND", "needs $REDIS_URL"}},
		{env: env{"LOG_LEVEL": "loud"}, wants: []string{"LOG_LEVEL", `"loud" is not allowed; use one of debug, info, warn, error`}},
		{env: env{"LOG_FORMAT": "xml"}, wants: []string{"LOG_FORMAT", `"xml" is not allowed; use one of text, json`}},
		{env: env{"REDIS_TLS": "maybe"}, wants: []string{"REDIS_TLS", `"maybe" is not a switch; use true, t, yes, 1, false, f, no or 0`}},
		{flag: "--redis-tls=2", wants: []string{"--redis-tls", `"2" is not a switch`}},
		{env: env{"USE_PROMETHEUS": "maybe"}, wants: []string{"USE_PROMETHEUS", `"maybe" is not a switch`}},
		{env: env{"GRPC_MAX_CONCURRENT_STREAMS": "x"}, wants: []string{"GRPC_MAX_CONCURRENT_STREAMS", `expected a valid 64 bit int but got "x"`}},
		{env: env{"MAX_CONCURRENT_REQUESTS": "9223372036854775808"}, wants: []string{"MAX_CONCURRENT_REQUESTS", `expected a valid 64 bit int but got "9223372036854775808"`}},
		{env: env{"GRPC_MAX_CONCURRENT_STREAMS": "-1"}, wants: []string{"GRPC_MAX_CONCURRENT_STREAMS", "-1 is not allowed; use 0 to 4294967295"}},
		{env: env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "auto"}, wants: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", `"auto" is not a switch; use true, t, yes, 1, false, f, no or 0`}},
		{env: env{"REDIS_TIMEOUT": "20"}, wants: []string{"REDIS_TIMEOUT", `expected duration but got "20": time: missing unit`}},
		{flag: "--drain-delay=soon", wants: []string{"--drain-delay", `expected duration but got "soon"`}},
		{env: env{"PROTO": "udp"}, wants: []string{"PROTO", `"udp" is not allowed; use one of tcp, tcp4, tcp6`}},
		{env: env{"FAILURE_MODE": "close"}, wants: []string{"FAILURE_MODE", `"close" is not allowed; use one of error, allow, deny, local`}},
		{env: env{"DRAIN_DELAY": "-1s"}, wants: []string{"--drain-delay ($DRAIN_DELAY): -1s is not allowed; use 0s or more"}},
		{env: env{"DRAIN_TIMEOUT": "0s"}, wants: []string{"--drain-timeout ($DRAIN_TIMEOUT): 0s is not allowed; use 1ms or more"}},
		{flag: "--redis-timeout=0s", wants: []string{"--redis-timeout ($REDIS_TIMEOUT): 0s is not allowed; use 1ms or more"}},
		{env: env{"CACHE_KEY_PREFIX": "a|b"}, wants: []string{"CACHE_KEY_PREFIX", `"a|b" is not allowed, it must not contain '|'`}},
		{env: env{"CACHE_KEY_PREFIX": "a\xff"}, wants: []string{"CACHE_KEY_PREFIX", `"a\xff" is not allowed, it must be UTF-8`}},
		{flag: "--cache-key-prefix=a\xff", wants: []string{"--cache-key-prefix", `"a\xff" is not allowed, it must be UTF-8`}},
		{env: env{"CONFIG_TYPE": "GRPC_XDS_DELTA"}, wants: []string{"CONFIG_TYPE", `"GRPC_XDS_DELTA" is not allowed; use one of FILE, GRPC_XDS_SOTW`}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_URL": "http://cp:18000"}, wants: []string{"CONFIG_GRPC_XDS_SERVER_URL", `"http://cp:18000" is not a gRPC server; use host:port`}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_URL": "unix:"}, wants: []string{"CONFIG_GRPC_XDS_SERVER_URL", `"unix:" is not a gRPC server`}},
		{env: env{"CONFIG_GRPC_XDS_NODE_METADATA": "a=b,zone:c"}, wants: []string{"CONFIG_GRPC_XDS_NODE_METADATA", `part 2 is not metadata; use KEY=VALUE`}},
		{env: env{"CONFIG_GRPC_XDS_NODE_METADATA": "=c"}, wants: []string{"CONFIG_GRPC_XDS_NODE_METADATA", `part 1 is not metadata`}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a:b,c"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "header 2 has no colon; use NAME:VALUE"}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a b:c"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", `the name of header 1 is not allowed`}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "grpc-timeout:1"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", `the name of header 1 is not allowed`}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a:\u00fc"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", `the value of header 1 is not allowed`}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": "0s"}, wants: []string{"$CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "use 1ms or more"}},
		{env: env{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "1.5"}, wants: []string{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", `"1.5" is not allowed; use a number from 0 to 1`}},
		{env: env{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "-1"}, wants: []string{"$XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "-1 is not allowed; use 0 to 2147483647"}},
		{env: env{"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": "key.pem"}, wants: []string{"--config-grpc-xds-client-tls-cert ($CONFIG_GRPC_XDS_CLIENT_TLS_CERT): a file is required because --config-grpc-xds-client-tls-key ($CONFIG_GRPC_XDS_CLIENT_TLS_KEY) is set"}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_URL": "dns:///"}, wants: []string{"CONFIG_GRPC_XDS_SERVER_URL", `"dns:///" is not a gRPC server`}},
		{env: env{"NEAR_LIMIT_RATIO": "NaN"}, wants: []string{`"NaN" is not allowed; use a number from 0 to 1`}},
		{env: env{"STATSD_PORT": "tcp://10.0.0.1:8125"}, wants: []string{"is not a port", "Kubernetes"}},
		{env: env{"STATSD_PROTOCOL": "unix"}, wants: []string{`"unix" is not allowed`, "tcp, udp"}},
		{env: env{"STATS_FLUSH_INTERVAL": "0"}, wants: []string{"STATS_FLUSH_INTERVAL", "10ms to 1h"}},
		{env: env{"EXTRA_TAGS": "zone"}, wants: []string{`"zone" is not a tag`, "name:value"}},
		{env: env{"EXTRA_TAGS": "a:b\nc:1|c"}, wants: []string{"is not a tag"}},
		{env: env{"USE_DOG_STATSD_MOGRIFIERS": "A-B"}, wants: []string{`"A-B" is not a name`}},
		{env: env{"USE_DOG_STATSD_MOGRIFIERS": "A"}, wants: []string{"$DOG_STATSD_MOGRIFIER_A_PATTERN", "is required", "$DOG_STATSD_MOGRIFIER_A_NAME"}},
		{env: env{"USE_DOG_STATSD_MOGRIFIERS": "A", "DOG_STATSD_MOGRIFIER_A_PATTERN": "(", "DOG_STATSD_MOGRIFIER_A_NAME": "x", "DOG_STATSD_MOGRIFIER_A_TAGS": "t:"}, wants: []string{"$DOG_STATSD_MOGRIFIER_A_PATTERN", "missing closing )", "$DOG_STATSD_MOGRIFIER_A_TAGS", `"t:" is not a tag`}},
		{env: env{"TRACING_EXPORTER_PROTOCOL": "zipkin"}, wants: []string{"TRACING_EXPORTER_PROTOCOL", "use one of http, grpc"}},
		{env: env{"TRACING_SAMPLING_RATE": "2"}, wants: []string{"TRACING_SAMPLING_RATE", "is not allowed; use a number from 0 to 1"}},
		{env: env{"DECISION_LOG": "yes"}, wants: []string{`"yes" is not allowed; use one of off, denied, all`}},
		{env: env{"DECISION_LOG": "all", "DECISION_LOG_TO": "otlp", "DECISION_LOG_RATE": "0"}, wants: []string{"0 is not allowed; use 1 to 1000000"}},
		{env: env{"DECISION_LOG_TO": "file"}, wants: []string{`"file" is not allowed; use one of stdout, otlp`}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.env, tt.flag), func(t *testing.T) {
			_, err := parse(t, tt.env, strings.Fields(tt.flag)...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "sword") {
				t.Errorf("error %q shows a secret", err)
			}
		})
	}
}
