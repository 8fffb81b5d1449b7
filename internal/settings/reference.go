package settings

import (
	"os"
	"strings"
)

// Warning is about a variable that has no effect although it asks for one.
type Warning struct {
	Variable, Value string
	Instead         string // what happens, as a clause
}

// ignored is a variable without effect that asks for something, unless it has one value.
type ignored struct{ variable, silent, instead string }

const bothRedis = "the settings REDIS_TLS_... apply to both Redis servers"

// ignoredVariables are warned of. The first ones are those of envoyproxy/ratelimit.
var ignoredVariables = []ignored{
	{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "false", "ratelimit_service_response_time_seconds is in seconds"},
	// That mapping, of the reference's examples and of Envoy Gateway, makes the same names and labels.
	{"PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml", "metrics have the names and labels of the reference's mapping"},
	{"DESCRIPTOR_KEY_CONFIG", "", "limits sent by requests share one series per domain"},

	{"REDIS_PERSECOND_TLS_CACERT", "", bothRedis},
	{"REDIS_PERSECOND_TLS_CLIENT_CERT", "", bothRedis},
	{"REDIS_PERSECOND_TLS_CLIENT_KEY", "", bothRedis},
	{"REDIS_PERSECOND_TLS_SKIP_HOSTNAME_VERIFICATION", "false", bothRedis},
}

// withoutEffect returns what the environment asks for in vain.
func withoutEffect() (warnings []Warning) {
	for _, v := range ignoredVariables {
		if value := os.Getenv(v.variable); value != "" && !strings.EqualFold(value, v.silent) {
			warnings = append(warnings, Warning{v.variable, value, v.instead})
		}
	}
	return warnings
}
