package settings

import (
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
	{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", isOn, warned, "ratelimit_service_response_time_seconds is in seconds"},
	{"USE_CALENDAR_MONTH_RATE_LIMIT", isOn, warned, "a month has 30 days, counted from 1970-01-01"},
	{"MAX_CONCURRENT_REQUESTS", isNotNumber(0), warned, "the number of requests is not bounded; each waits for Redis at most REDIS_OP_TIMEOUT"},
	{"REQUEST_TIMEOUT", isNot("0"), warned, "REDIS_OP_TIMEOUT and the caller's own deadline bound how long a request waits"},
	{"GRPC_MAX_CONCURRENT_STREAMS", isNotNumber(0), warned, "the number of streams of a connection is not bounded"},

	{"EXPIRATION_JITTER_MAX_SECONDS", isSet, ignored, "counters expire with their window"},
	{"REDIS_POOL_ON_EMPTY_BEHAVIOR", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_PIPELINE_WINDOW", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PIPELINE_LIMIT", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_USE_EXPLICIT_PIPELINE", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_POOL_ON_EMPTY_WAIT_DURATION", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_CLUSTER_PIPELINE_PARALLELISM", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR", isSet, ignored, "a connection to a replica is always closed, and the primary looked for"},
	{"SANITIZE_DESCRIPTOR_METRIC_DOTS", isSet, ignored, "a dot in a key or value does not break up the labels of metrics"},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION", isSet, ignored, "a call waits for a connection, within its time"},
	{"REDIS_PERSECOND_PIPELINE_WINDOW", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PERSECOND_PIPELINE_LIMIT", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PERSECOND_USE_EXPLICIT_PIPELINE", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", isSet, ignored, "requests that arrive during a call go into the next one"},
	{"RUNTIME_WATCH_ROOT", isSet, ignored, "every directory on the way to the rules is watched"},
	{"RUNTIME_IGNOREDOTFILES", isSet, ignored, "dot files are never read"},
	{"PROMETHEUS_MAPPER_YAML", isSet, ignored, "metrics have the names and labels of the reference's own mapping"},
}

// Warning tells of a variable that has no effect although it asks for one.
type Warning struct {
	Variable, Value string
	Instead         string // what happens
}

// compare looks for what the environment asks for as of the reference.
func compare() (warnings []Warning) {
	for _, v := range reference {
		value := os.Getenv(v.name)
		if v.outcome == warned && value != "" && v.asks.met(value) {
			warnings = append(warnings, Warning{v.name, value, v.instead})
		}
	}
	return warnings
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
