package accesslog

import (
	"fmt"
	"strings"

	"weir/internal/descriptors/spelling"
)

// These are names of properties that are not headers.
const (
	RemoteAddress = ":remote_address"        // may have a port
	DirectAddress = ":direct_remote_address" // address of the connection; may have a port
	RouteName     = ":route_name"

	timeField     = ":time"
	durationField = ":duration"
	requestField  = ":request"
	statusField   = ":status"
)

// requestFields are properties that only requests have.
var requestFields = []string{":method", ":path", requestField, ":authority", statusField, RemoteAddress, DirectAddress, RouteName, "x-forwarded-for", "user-agent"}

// The first two are names in mappings: the end of a request, and a duration in seconds. The others are JSON fields.
const (
	endTime         = "end_time"
	durationSeconds = "duration_seconds"
	startTime       = "start_time"
	requestTime     = "request_time"
)

// known lists the properties of requests: the name in mappings, the name in this package, and the names of the JSON
// fields that may have the property, the most common first. Every other name is a header.
var known = []struct {
	called, is string
	json       []string
}{
	{"time", timeField, []string{startTime, "time", "@timestamp", "timestamp", "ts"}},
	{endTime, timeField, []string{"time_iso8601", "time_local", "msec"}},
	{"duration", durationField, []string{"duration", requestTime}},
	{durationSeconds, durationField, nil},
	{"method", ":method", []string{"method", ":method", "request_method"}},
	{"path", ":path", []string{"path", "x-envoy-origin-path", ":path", "request_uri", "uri", "url"}},
	{"authority", ":authority", []string{"authority", ":authority", "host", "http_host"}},
	{"remote_address", RemoteAddress, []string{"downstream_remote_address", "remote_address", "remote_addr", "client_ip"}},
	{"forwarded_for", "x-forwarded-for", nil},
	{"user_agent", "user-agent", nil},
	{"request_id", "x-request-id", []string{"request_id", "x-request-id"}},
	{"scheme", ":scheme", []string{"scheme", ":scheme"}},
	{"route_name", RouteName, []string{"route_name"}},
	{"direct_remote_address", DirectAddress, []string{"downstream_direct_remote_address"}},
	{"request", requestField, []string{"request"}},
	{"status", statusField, []string{"response_code", "status", ":status"}},
}

// field is a field of JSON lines.
type field struct {
	called string   // name of the field's property in mappings
	name   string   // full name
	path   []string // name split at dots, for fields of nested objects
}

func newField(called, name string) field { return field{called, name, strings.Split(name, ".")} }

// Mapping maps names of properties to their JSON fields. A property that is not in it has the usual fields.
type Mapping map[string]field

// ParseMapping parses pairs such as end_time=ts, remote_address=client.ip and header:x-user=user. A field with a dot
// is a field with exactly that name or a path into objects. ParseMapping fails if a name is unknown or repeated.
func ParseMapping(pairs []string) (Mapping, error) {
	m := Mapping{}
	for _, pair := range pairs {
		called, name, ok := strings.Cut(pair, "=")
		if !ok || called == "" || name == "" {
			return nil, fmt.Errorf("%q is not NAME=FIELD, such as time=ts", pair)
		}
		is, ok := strings.CutPrefix(called, "header:")
		is = strings.ToLower(is)
		var names []string
		for _, k := range known {
			names = append(names, k.called)
			if k.called == called {
				is, ok = k.is, true
			}
		}
		if !ok {
			hint := ""
			if nearest := spelling.Nearest(called, names); nearest != "" {
				hint = fmt.Sprintf(", did you mean %q?", nearest)
			}
			return nil, fmt.Errorf("unknown name %q in %q%s; use one of %s, or header:NAME", called, pair, hint, strings.Join(names, ", "))
		}
		if before, repeated := m[is]; repeated {
			return nil, fmt.Errorf("%q repeats what %q says", pair, before.called+"="+before.name)
		}
		m[is] = newField(called, name)
	}
	return m, nil
}

// fieldsOf returns the JSON fields that may have a property. In each line, the first field that has a value is used.
func (p *Parser) fieldsOf(is string) []field {
	if p.fields[is] == nil {
		snake := strings.ReplaceAll(is, "-", "_")
		p.fields[is] = []field{newField(is, is), newField(is, snake), newField(is, "http_"+snake)} // the last is nginx's
	}
	return p.fields[is]
}
