package settings

import (
	"os"
	"slices"
	"strings"
)

// variable is one that has no effect.
type variable struct {
	name    string
	warns   bool   // because it asks for something that is lost,
	silent  string // unless it has this value
	instead string // what happens, as a clause
	twin    bool   // there is one for the second Redis, too: REDIS_PERSECOND_...
}

// reference lists the variables of envoyproxy/ratelimit that mean nothing here,
// but for those that only go with another one of the list.
var reference = withTwins([]variable{
	{name: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", warns: true, silent: "false", instead: "ratelimit_service_response_time_seconds is in seconds"},
	// That mapping, of the reference's examples and of Envoy Gateway, makes the same names and labels.
	{name: "PROMETHEUS_MAPPER_YAML", warns: true, silent: "/etc/statsd-exporter/conf.yaml", instead: "metrics have the names and labels of the reference's mapping"},
	{name: "DESCRIPTOR_KEY_CONFIG", warns: true, instead: "limits sent by requests share one series per domain"},

	{name: "EXPIRATION_JITTER_MAX_SECONDS", instead: "counters expire with their window"},
	{name: "REDIS_STARTUP_INITIAL_INTERVAL", instead: untilThere},
	{name: "REDIS_STARTUP_MAX_INTERVAL", instead: untilThere},
	{name: "REDIS_STARTUP_MAX_ELAPSED_TIME", instead: untilThere},
	{name: "REDIS_POOL_ON_EMPTY_BEHAVIOR", instead: "a call waits for a connection", twin: true},
	{name: "REDIS_POOL_ON_EMPTY_WAIT_DURATION", instead: "a call waits for a connection", twin: true},
	{name: "REDIS_PIPELINE_WINDOW", instead: together, twin: true},
	{name: "REDIS_PIPELINE_LIMIT", instead: together, twin: true},
	{name: "REDIS_USE_EXPLICIT_PIPELINE", instead: together, twin: true},
	{name: "REDIS_CLUSTER_PIPELINE_PARALLELISM", instead: together, twin: true},
	{name: "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR", instead: "Weir always leaves a replica"},
	{name: "SANITIZE_DESCRIPTOR_METRIC_DOTS", instead: "dots do not break metric labels"},
	{name: "RUNTIME_IGNOREDOTFILES", instead: "dot files are never read"},
})

// removed lists variables that Weir once had, or nearly has, and what happens instead.
var removed = []variable{
	{name: "CONFIG_POLL_INTERVAL", warns: true, instead: "rule files are compared every 5 s, besides several looks a second at their sizes and times"},
	{name: "DECISION_LOG_SAMPLE", warns: true, instead: "DECISION_LOG_RATE alone bounds the decision log"},
	{name: "GRPC_REFLECTION", warns: true, instead: "reflection is always on"},
	{name: "LOCAL_CACHE_MAX_AGE", warns: true, instead: "used-up limits are denied for a second without asking Redis"},
	{name: "MAX_DESCRIPTORS", warns: true, instead: "a request may have 100 descriptors"},
	{name: "MAX_DETAILED_SERIES", warns: true, instead: "values of requests make at most 10000 series"},
	{name: "MEMORY_MAX_COUNTERS", warns: true, instead: "the number of counters follows from the container's memory limit or GOMEMLIMIT"},
	{name: "OTEL_EXPORTER_OTLP_HEADERS_FILE", warns: true, instead: "set OTEL_EXPORTER_OTLP_HEADERS, in Kubernetes from a Secret"},
	{name: "OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE", warns: true, instead: "set OTEL_EXPORTER_OTLP_TRACES_HEADERS, in Kubernetes from a Secret"},
	{name: "OTEL_EXPORTER_OTLP_LOGS_HEADERS_FILE", warns: true, instead: "set OTEL_EXPORTER_OTLP_LOGS_HEADERS, in Kubernetes from a Secret"},
	{name: "REDIS_AUTH_COMMAND_INTERVAL", warns: true, instead: everyFive},
	{name: "REDIS_PERSECOND_AUTH_COMMAND_INTERVAL", warns: true, instead: everyFive},
	{name: "REDIS_OP_TIMEOUT", warns: true, instead: "a request waits for Redis until just before its deadline, or 100 ms if there is no deadline, at most REDIS_TIMEOUT"},
}

const (
	everyFive  = "the command runs every 5 minutes, and when Redis rejects its password"
	together   = "requests that arrive during a call share the next"
	untilThere = "Weir looks for Redis every 2 s"
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

// withoutEffect returns what the environment asks for in vain.
func withoutEffect() (warnings []Warning) {
	for _, v := range slices.Concat(reference, removed) {
		if value := os.Getenv(v.name); v.warns && value != "" && !strings.EqualFold(value, v.silent) {
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
		if name != "REDIS_URL" && name != "REDIS_URL_FILE" && strings.HasPrefix(name, "REDIS_") && os.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}
