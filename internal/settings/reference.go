package settings

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// variable is one of envoyproxy/ratelimit that is not honoured here, or not
// under its name.
type variable struct {
	name    string
	values  values
	asks    condition // for something, and is warned of; none if nothing is lost
	instead string    // what happens, as a clause
	twin    bool      // there is one for the second Redis, too: REDIS_PERSECOND_...
}

// values are those that the reference takes. Another one is an error there, or
// undoes it later, and a mistake here, too.
type values struct {
	allowed string
	hold    func(value string) bool
}

var (
	texts    = values{"any text", func(string) bool { return true }}
	switches = values{"true, t, yes, 1, false, f, no and 0", func(value string) bool {
		_, err := parseSwitch(value)
		return err == nil
	}}
	counts = values{"whole numbers from 0", func(value string) bool {
		_, err := strconv.ParseUint(value, 10, 63)
		return err == nil
	}}
	durations = values{"durations such as 150us, 1s or 0", func(value string) bool {
		d, err := time.ParseDuration(value)
		return err == nil && d >= 0
	}}
)

// condition returns which values of a variable ask for something that is not done.
type condition struct {
	text string
	met  func(value string) bool
}

var (
	isSet = condition{"is set", func(string) bool { return true }}
	isOn  = condition{"is true", func(value string) bool {
		on, _ := parseSwitch(value)
		return on
	}}
)

// isNot is met by any other text.
func isNot(text string) condition {
	return condition{"is not " + text, func(value string) bool { return value != text }}
}

// reference lists the variables of envoyproxy/ratelimit that mean nothing here,
// but for those that only go with another one of the list.
var reference = withTwins([]variable{
	{name: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", values: switches, asks: isOn, instead: "ratelimit_service_response_time_seconds is in seconds"},
	// That mapping, of the reference's examples and of Envoy Gateway, makes the same names and labels.
	{name: "PROMETHEUS_MAPPER_YAML", values: texts, asks: isNot("/etc/statsd-exporter/conf.yaml"), instead: "metrics have the names and labels of the reference's mapping"},
	{name: "DESCRIPTOR_KEY_CONFIG", values: texts, asks: isSet, instead: "limits sent by requests share one series per domain"},

	{name: "EXPIRATION_JITTER_MAX_SECONDS", values: counts, instead: "counters expire with their window"},
	{name: "REDIS_STARTUP_INITIAL_INTERVAL", values: durations, instead: untilThere},
	{name: "REDIS_STARTUP_MAX_INTERVAL", values: durations, instead: untilThere},
	{name: "REDIS_STARTUP_MAX_ELAPSED_TIME", values: durations, instead: untilThere},
	{name: "REDIS_POOL_ON_EMPTY_BEHAVIOR", values: texts, instead: "a call waits for a connection, within its time", twin: true},
	{name: "REDIS_POOL_ON_EMPTY_WAIT_DURATION", values: durations, instead: "a call waits for a connection, within its time", twin: true},
	{name: "REDIS_PIPELINE_WINDOW", values: durations, instead: together, twin: true},
	{name: "REDIS_PIPELINE_LIMIT", values: counts, instead: together, twin: true},
	{name: "REDIS_USE_EXPLICIT_PIPELINE", values: switches, instead: together, twin: true},
	{name: "REDIS_CLUSTER_PIPELINE_PARALLELISM", values: counts, instead: together, twin: true},
	{name: "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR", values: switches, instead: "Weir always leaves a replica and looks for the primary"},
	{name: "SANITIZE_DESCRIPTOR_METRIC_DOTS", values: switches, instead: "dots do not break metric labels"},
	{name: "RUNTIME_IGNOREDOTFILES", values: switches, instead: "dot files are never read"},
})

// removed lists variables that Weir once had, or nearly has, and what happens instead.
var removed = []variable{
	{name: "CONFIG_POLL_INTERVAL", instead: "rule files are compared every 5 s, besides several looks a second at their sizes and times"},
	{name: "DECISION_LOG_SAMPLE", instead: "DECISION_LOG_RATE alone bounds the decision log"},
	{name: "GRPC_REFLECTION", instead: "reflection is always on"},
	{name: "LOCAL_CACHE_MAX_AGE", instead: "used-up limits are denied for a second without asking Redis"},
	{name: "MAX_DESCRIPTORS", instead: "a request may have 100 descriptors"},
	{name: "MAX_DETAILED_SERIES", instead: "values of requests make at most 10000 series"},
	{name: "MEMORY_MAX_COUNTERS", instead: "the number of counters follows from the container's memory limit or GOMEMLIMIT"},
	{name: "OTEL_EXPORTER_OTLP_HEADERS_FILE", instead: "set OTEL_EXPORTER_OTLP_HEADERS, in Kubernetes from a Secret"},
	{name: "OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE", instead: "set OTEL_EXPORTER_OTLP_TRACES_HEADERS, in Kubernetes from a Secret"},
	{name: "OTEL_EXPORTER_OTLP_LOGS_HEADERS_FILE", instead: "set OTEL_EXPORTER_OTLP_LOGS_HEADERS, in Kubernetes from a Secret"},
	{name: "REDIS_AUTH_COMMAND_INTERVAL", instead: everyFive},
	{name: "REDIS_PERSECOND_AUTH_COMMAND_INTERVAL", instead: everyFive},
	{name: "REDIS_OP_TIMEOUT", instead: "a request waits for Redis until just before its deadline, without one 100 ms, at most REDIS_TIMEOUT"},
}

const (
	everyFive  = "the command runs every 5 minutes, and when Redis rejects its password"
	together   = "requests that arrive during a call share the next one"
	untilThere = "Weir looks for Redis every 2 s until it is there"
)

// withTwins adds the variables of the second Redis.
func withTwins(list []variable) []variable {
	for _, v := range list {
		if v.twin {
			v.name = strings.Replace(v.name, "REDIS_", "REDIS_PERSECOND_", 1)
			list = append(list, v)
		}
	}
	return list
}

// Warning is about a variable that has no effect although it asks for one.
type Warning struct {
	Variable, Value string
	Instead         string // what happens
}

// compare looks for what the environment asks for as of the reference. The error
// names every value that means nothing.
func compare() (warnings []Warning, err error) {
	var errs []error
	for _, v := range reference {
		value := os.Getenv(v.name)
		switch {
		case value == "":
		case !v.values.hold(value):
			errs = append(errs, fmt.Errorf("$%s: %q is not allowed, allowed are %s", v.name, value, v.values.allowed))
		case v.asks.met != nil && v.asks.met(value):
			warnings = append(warnings, Warning{v.name, value, v.instead})
		}
	}
	for _, v := range removed {
		if value := os.Getenv(v.name); value != "" {
			warnings = append(warnings, Warning{v.name, value, v.instead})
		}
	}
	return warnings, errors.Join(errs...)
}

// redisVariables names the variables that say how to use a Redis.
func redisVariables(own []string) (names []string) {
	for _, v := range reference {
		own = append(own, v.name)
	}
	for _, name := range own {
		if name != "REDIS_URL" && name != "REDIS_URL_FILE" && strings.HasPrefix(name, "REDIS_") && os.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}
