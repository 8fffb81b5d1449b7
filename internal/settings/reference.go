package settings

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// variable is one of envoyproxy/ratelimit that is not honoured here, or not
// under its name.
type variable struct {
	name    string
	asks    condition
	outcome outcome
	instead string // what happens, as a clause
}

// outcome is what comes of a variable that asks for something.
type outcome string

const (
	refused outcome = "error" // it would be unsafe to serve as if it were not set
	warned  outcome = "warning"
	ignored outcome = "none" // nothing is lost
)

// condition tells which values of a variable ask for something that is not done.
type condition struct {
	text string
	met  func(value string) bool
}

var (
	isSet = condition{"is set", func(string) bool { return true }}
	isOn  = condition{"is true", func(value string) bool {
		on, err := parseSwitch(value)
		return on || err != nil
	}}
)

// isNot is met by any other text than the reference's default.
func isNot(standard string) condition {
	return condition{"is not " + standard, func(value string) bool { return !strings.EqualFold(value, standard) }}
}

// isNotNumber is met by any other number than the reference's default.
func isNotNumber(standard float64) condition {
	return condition{fmt.Sprintf("is not %g", standard), func(value string) bool {
		n, err := strconv.ParseFloat(value, 64)
		return err != nil || n != standard
	}}
}

// reference lists the variables of envoyproxy/ratelimit that mean nothing here,
// but for those that only go with another one of the list.
var reference = []variable{
	{"GRPC_SERVER_USE_TLS", isOn, refused, "the gRPC listener speaks no TLS"},
	{"CONFIG_TYPE", isNot("FILE"), refused, "rules come from files only, see CONFIG_PATH"},

	{"SHADOW_MODE", isOn, warned, "requests over a limit are denied; shadow_mode is set per rule"},
	{"QUOTA_MODE", isOn, warned, "requests over a limit are denied; quota_mode is set per rule"},
	{"GRPC_UDS", isSet, warned, "gRPC is served on GRPC_HOST and GRPC_PORT, not on a unix socket"},
	{"GRPC_CLIENT_TLS_CACERT", isSet, warned, "clients of the gRPC listener are not authenticated"},
	{"GRPC_CLIENT_TLS_SAN", isSet, warned, "clients of the gRPC listener are not authenticated"},
	{"PROTO", isNot("tcp"), warned, "all listeners use tcp"},
	{"NEAR_LIMIT_RATIO", isNotNumber(0.8), warned, "near_limit counts from 80 % of a limit"},
	{"USE_STATSD", isOn, warned, "there is no statsd client, metrics are served at PROMETHEUS_ADDR"},
	{"USE_DOG_STATSD", isOn, warned, "there is no statsd client, metrics are served at PROMETHEUS_ADDR"},
	{"EXTRA_TAGS", isSet, warned, "metrics carry no further labels"},
	{"PROMETHEUS_MAPPER_YAML", isSet, warned, "metrics have the names and labels of the reference's own mapping"},
	{"TRACING_ENABLED", isOn, warned, "there are no traces"},

	{"LOCAL_CACHE_SIZE_IN_BYTES", isNotNumber(0), ignored, "there is no cache of denied counters in front of Redis"},
	{"EXPIRATION_JITTER_MAX_SECONDS", isSet, ignored, "counters expire with their window"},
	{"REDIS_POOL_ON_EMPTY_BEHAVIOR", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_POOL_ON_EMPTY_WAIT_DURATION", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_PIPELINE_WINDOW", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PIPELINE_LIMIT", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_USE_EXPLICIT_PIPELINE", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_PERSECOND_PIPELINE_WINDOW", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PERSECOND_PIPELINE_LIMIT", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PERSECOND_USE_EXPLICIT_PIPELINE", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", isSet, ignored, "the health check always needs rules"},
	{"RUNTIME_WATCH_ROOT", isSet, ignored, "every directory on the way to the rules is watched"},
	{"RUNTIME_IGNOREDOTFILES", isSet, ignored, "dot files are never read"},
	{"USE_PROMETHEUS", isSet, ignored, "metrics are always served at PROMETHEUS_ADDR"},
	{"DISABLE_STATS", isSet, ignored, "metrics are always served at PROMETHEUS_ADDR"},
}

// Warning tells of a variable that has no effect although it asks for one.
type Warning struct {
	Variable, Value string
	Instead         string // what happens
}

// compare looks for what the environment asks for as of the reference. The
// error names every variable without which it is unsafe to serve.
func compare() (warnings []Warning, err error) {
	var problems []string
	for _, v := range reference {
		value := os.Getenv(v.name)
		if value == "" || !v.asks.met(value) {
			continue
		}
		switch v.outcome {
		case refused:
			problems = append(problems, fmt.Sprintf("$%s: %q is not supported: %s", v.name, value, v.instead))
		case warned:
			warnings = append(warnings, Warning{v.name, value, v.instead})
		}
	}
	if problems != nil {
		return nil, errors.New(strings.Join(problems, "\n"))
	}
	return warnings, nil
}

// redisVariables names the variables that say how to use a Redis.
func redisVariables(own []string) (names []string) {
	for _, v := range reference {
		own = append(own, v.name)
	}
	for _, name := range own {
		if name != "REDIS_URL" && strings.HasPrefix(name, "REDIS_") && os.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}
