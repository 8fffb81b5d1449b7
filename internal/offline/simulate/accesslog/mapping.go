package accesslog

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/descriptors/spelling"
)

// Names of what is no header.
const (
	RemoteAddress = ":remote_address"        // may have a port
	DirectAddress = ":direct_remote_address" // of the connection; may have a port
	RouteName     = ":route_name"

	timeField     = ":time"
	durationField = ":duration"
	requestField  = ":request"
)

// Names in mappings for a time and a duration of another kind.
const (
	endTime         = "end_time"
	durationSeconds = "duration_seconds"
)

// fields has what is called in mappings what, and the names that JSON logs have for it, the usual one first. All
// else is a header.
var fields = []struct {
	called, is string
	json       []string
}{
	{"time", timeField, []string{"start_time", "time", "@timestamp", "timestamp", "time_iso8601", "time_local", "ts", "msec"}},
	{endTime, timeField, nil},
	{"duration", durationField, []string{"duration", "request_time"}},
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
}

// Mapping says where JSON lines have the fields. The zero value leaves it to the usual names.
type Mapping struct {
	fields  map[string]string
	atEnd   bool // the time is of the end of a request
	seconds bool // durations are in seconds, not in milliseconds
}

// ParseMapping reads pairs such as end_time=ts, remote_address=client.ip and header:x-user=user, each name once.
// A dot leads into an object unless a field is called so.
func ParseMapping(pairs []string) (m Mapping, err error) {
	m.fields = map[string]string{}
	said := map[string]string{} // what a pair names: the pair
	for _, pair := range pairs {
		called, field, ok := strings.Cut(pair, "=")
		if !ok || called == "" || field == "" {
			return m, fmt.Errorf("%q is not NAME=FIELD, such as time=ts", pair)
		}
		is, ok := strings.CutPrefix(called, "header:")
		is = strings.ToLower(is)
		for _, f := range fields {
			if f.called == called {
				is, ok = f.is, true
			}
		}
		if !ok {
			return m, unknownName(called, pair)
		}
		if before := said[is]; before != "" {
			return m, fmt.Errorf("%q repeats what %q says", pair, before)
		}
		m.fields[is], said[is] = field, pair
		m.atEnd, m.seconds = m.atEnd || called == endTime, m.seconds || called == durationSeconds
	}
	return m, nil
}

func unknownName(called, pair string) error {
	var known []string
	for _, f := range fields {
		known = append(known, f.called)
	}
	hint := ""
	if nearest := spelling.Nearest(called, known); nearest != "" {
		hint = fmt.Sprintf(", did you mean %q?", nearest)
	}
	return fmt.Errorf("unknown name %q in %q%s; use one of %s, or header:NAME", called, pair, hint, strings.Join(known, ", "))
}

// names are those that logs have for something. The first that has a value counts, whatever other
// lines had.
type names [][]string // each the whole name, and then its parts between dots

// namesOf returns the names for something.
func (p *Parser) namesOf(is string) names {
	n, known := p.names[is]
	if known {
		return n
	}
	snake := strings.ReplaceAll(is, "-", "_")
	list := []string{is, snake, "http_" + snake} // the last is nginx's
	for _, f := range fields {
		if f.is == is && f.json != nil {
			list = f.json
		}
	}
	if own := p.mapping.fields[is]; own != "" {
		list = []string{own}
	}
	for _, name := range list {
		n = append(n, slices.Concat([]string{name}, strings.Split(name, ".")))
	}
	p.names[is] = n
	return n
}
