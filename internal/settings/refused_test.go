package settings

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestImpossibleValues checks that errors name the value, the setting and the allowed values, and
// show no secret.
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
		{env: env{"PROMETHEUS_ADDR": "localhost"}, wants: []string{"PROMETHEUS_ADDR", "is not allowed; use host:port or :port"}},
		{flag: "--prometheus-addr=:http", wants: []string{"--prometheus-addr", "use host:port"}},
		{env: env{"PROMETHEUS_PATH": "metrics"}, wants: []string{"PROMETHEUS_PATH", "use the path of a URL, such as /metrics"}},
		{env: env{"PROMETHEUS_ADDR": ":65536"}, wants: []string{"PROMETHEUS_ADDR", "is not allowed; use host:port or :port"}},
		{env: env{"PROMETHEUS_PATH": "/../metrics"}, wants: []string{"PROMETHEUS_PATH", "the path of a URL"}},
		{env: env{"PROMETHEUS_PATH": "//metrics"}, wants: []string{"PROMETHEUS_PATH", "the path of a URL"}},
		{env: env{"LIMIT_RESET_HEADER": "Reset: now"}, wants: []string{"LIMIT_RESET_HEADER", "use the name of a header"}},
		{env: env{"BACKEND_TYPE": "memcache"}, wants: []string{"BACKEND_TYPE", `"memcache" is not allowed; use redis`}},
		{env: env{"REDIS_SOCKET_TYPE": "udp"}, wants: []string{"REDIS_SOCKET_TYPE", "use one of tcp, unix"}},
		{env: env{"REDIS_TYPE": "RING"}, wants: []string{"REDIS_TYPE", `"RING" is not allowed; use one of single, sentinel, cluster`}},
		{env: env{"REDIS_PERSECOND_POOL_SIZE": "-1"}, wants: []string{"REDIS_PERSECOND_POOL_SIZE", "-1 is not allowed; use 0 to 10000"}},
		{env: env{"REDIS_TIMEOUT": "0s"}, wants: []string{"REDIS_TIMEOUT", "0s is not allowed; use 1ms or more"}},
		{env: env{"REDIS_PERSECOND": "true"}, wants: []string{"REDIS_PERSECOND", "needs $REDIS_URL"}},
		{env: env{"LOG_LEVEL": "loud"}, wants: []string{"LOG_LEVEL", `"loud" is not allowed; use one of debug, info, warn, error`}},
		{env: env{"REDIS_TLS": "maybe"}, wants: []string{"REDIS_TLS", `"maybe" is not allowed; use one of true, false`}},
		{env: env{"GRPC_MAX_CONCURRENT_STREAMS": "x"}, wants: []string{"GRPC_MAX_CONCURRENT_STREAMS", `expected a valid 64 bit int but got "x"`}},
		{env: env{"GRPC_MAX_CONCURRENT_STREAMS": "-1"}, wants: []string{"GRPC_MAX_CONCURRENT_STREAMS", "-1 is not allowed; use 0 to 4294967295"}},
		{env: env{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "auto"}, wants: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", `"auto" is not allowed; use one of true, false`}},
		{env: env{"REDIS_TIMEOUT": "20"}, wants: []string{"REDIS_TIMEOUT", `"20" has no unit; did you mean 20s?`}},
		{flag: "--drain-delay=soon", wants: []string{"--drain-delay ($DRAIN_DELAY)", `"soon" is not a duration; use a number and a unit`}},
		{env: env{"DRAIN_DELAY": "10"}, wants: []string{`--drain-delay ($DRAIN_DELAY): "10" has no unit; did you mean 10s?`}},
		{env: env{"DRAIN_DELAY": "1d1d"}, wants: []string{`"1d1d" is not a duration`}},
		{env: env{"DRAIN_DELAY": "99999d"}, wants: []string{`"99999d" is not a duration`}},
		{flag: "--port=http --drain-delay --redis-type=ring", env: env{"GRPC_PORT": "x", "PORT": "y", "DRAIN_TIMEOUT": "0s", "REDIS_URL": "localhost", "REDIS_TLS": "maybe", "HOST": ""}, wants: []string{ // all at once
			`--port ($PORT): "http" is not a port`, `--grpc-port ($GRPC_PORT): "x" is not a port`, "--drain-delay ($DRAIN_DELAY): expected duration value", "--drain-timeout ($DRAIN_TIMEOUT): 0s is not allowed",
			"--redis-url ($REDIS_URL): redis URL has no port", `--redis-tls ($REDIS_TLS): "maybe" is not allowed`,
		}},
		{env: env{"FAILURE_MODE": "close"}, wants: []string{"FAILURE_MODE", `"close" is not allowed; use one of error, allow, deny, local`}},
		{env: env{"DRAIN_DELAY": "-1s"}, wants: []string{"--drain-delay ($DRAIN_DELAY): -1s is not allowed; use 0s or more"}},
		{env: env{"DRAIN_TIMEOUT": "0s"}, wants: []string{"--drain-timeout ($DRAIN_TIMEOUT): 0s is not allowed; use 1ms or more"}},
		{env: env{"CACHE_KEY_PREFIX": "a|b"}, wants: []string{"CACHE_KEY_PREFIX", "use UTF-8 without '|'"}},
		{env: env{"CACHE_KEY_PREFIX": "\xff"}, wants: []string{"CACHE_KEY_PREFIX", "use UTF-8 without '|'"}},
		{env: env{"CONFIG_TYPE": "GRPC_XDS_DELTA"}, wants: []string{"CONFIG_TYPE", `"GRPC_XDS_DELTA" is not allowed; use one of FILE, GRPC_XDS_SOTW`}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_URL": "http://cp:18000"}, wants: []string{"CONFIG_GRPC_XDS_SERVER_URL", "use host:port without a user or a password, or a target of gRPC"}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_URL": "unix:"}, wants: []string{"CONFIG_GRPC_XDS_SERVER_URL", "a target of gRPC"}},
		{env: env{"CONFIG_GRPC_XDS_NODE_METADATA": "a=b,zone:c"}, wants: []string{"CONFIG_GRPC_XDS_NODE_METADATA", "part 2 is not NAME=VALUE"}},
		{env: env{"CONFIG_GRPC_XDS_NODE_METADATA": "=c"}, wants: []string{"CONFIG_GRPC_XDS_NODE_METADATA", "part 1 is not NAME=VALUE"}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a:b,c"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "part 2 is not NAME:VALUE"}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a b:c"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "header 1 is not allowed; use letters"}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "grpc-timeout:1"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "header 1 is not allowed; use letters"}},
		{env: env{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "a:\u00fc"}, wants: []string{"$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "header 1 is not allowed"}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": "0s"}, wants: []string{"$CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "use 1ms or more"}},
		{env: env{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "1.5"}, wants: []string{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "1.5 is not allowed; use 0 to 1"}},
		{env: env{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "-1"}, wants: []string{"$XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "-1 is not allowed; use 0 to 2147483647"}},
		{env: env{"CONFIG_GRPC_XDS_SERVER_URL": "dns:///"}, wants: []string{"CONFIG_GRPC_XDS_SERVER_URL", "a target of gRPC"}},
		{env: env{"EVENTS_URL": "hooks:8000"}, wants: []string{"EVENTS_URL", "use a URL with http:// or https://, without a user or a password"}},
		{env: env{"EVENTS_URL": "https://user:swordfish@hooks/"}, wants: []string{"EVENTS_URL", "without a user or a password"}},
		{env: env{"EVENTS_URL": "http://a", "EVENTS_AUTH": "Bearer a\nb"}, wants: []string{"EVENTS_AUTH", "is not the value of a header"}},
		{env: env{"NEAR_LIMIT_RATIO": "NaN"}, wants: []string{"NaN is not allowed; use 0 to 1"}},
		{env: env{"STATSD_PROTOCOL": "unix"}, wants: []string{`"unix" is not allowed`, "tcp, udp"}},
		{env: env{"STATS_FLUSH_INTERVAL": "0"}, wants: []string{"STATS_FLUSH_INTERVAL", "10ms to 1h"}},
		{env: env{"EXTRA_TAGS": "zone"}, wants: []string{"part 1 is not NAME:VALUE"}},
		{env: env{"EXTRA_TAGS": "a:b\nc:1|c"}, wants: []string{"is not a tag"}},
		{env: env{"USE_DOG_STATSD_MOGRIFIERS": "A-B"}, wants: []string{"$DOG_STATSD_MOGRIFIER_A-B_PATTERN and $DOG_STATSD_MOGRIFIER_A-B_NAME are needed"}},
		{env: env{"USE_DOG_STATSD_MOGRIFIERS": "A"}, wants: []string{"$DOG_STATSD_MOGRIFIER_A_PATTERN and $DOG_STATSD_MOGRIFIER_A_NAME are needed"}},
		{env: env{"USE_DOG_STATSD_MOGRIFIERS": "A", "DOG_STATSD_MOGRIFIER_A_PATTERN": "(", "DOG_STATSD_MOGRIFIER_A_NAME": "x", "DOG_STATSD_MOGRIFIER_A_TAGS": "t:"}, wants: []string{"$DOG_STATSD_MOGRIFIER_A_PATTERN", "missing closing )", "$DOG_STATSD_MOGRIFIER_A_TAGS", `"t:" is not a tag`}},
		{env: env{"TRACING_SAMPLING_RATE": "2"}, wants: []string{"TRACING_SAMPLING_RATE", "2 is not allowed; use 0 to 1"}},
		{env: env{"DECISION_LOG": "yes"}, wants: []string{`"yes" is not allowed; use one of off, denied, all`}},
		{env: env{"DECISION_LOG": "all", "DECISION_LOG_TO": "otlp", "DECISION_LOG_RATE": "0"}, wants: []string{"0 is not allowed; use 1 to 1000000"}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.env, tt.flag), func(t *testing.T) {
			_, err := parse(t, tt.env, strings.Fields(tt.flag)...)
			if err == nil {
				t.Fatal("accepted")
			}
			testenv.Contains(t, err.Error(), tt.wants...)
			if strings.Contains(err.Error(), "swordfish") {
				t.Errorf("error %q shows a secret", err)
			}
		})
	}
}
