package bench

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Options are the servers and the load. The tags of the fields define flags of the command.
type Options struct {
	Servers []string `json:"servers" arg:"" optional:"" name:"server" default:"127.0.0.1:8081" help:"gRPC addresses of the servers, host:port or unix:PATH; 127.0.0.1:8081 by default. Any server of Envoy's RateLimitService v3 works."`
	// TLS must not be changed after Run is called. nil disables TLS.
	TLS *tls.Config `json:"-" kong:"-"`

	Rate        float64       `json:"rate" default:"0" help:"Requests per second of an open loop, which sends on schedule without waiting for answers. Latency counts from the scheduled time, including requests that fail or are never sent. By default, a closed loop: each caller sends its next request when the last one is answered."`
	Callers     int           `json:"callers" kong:"-"` // maximum number of concurrent requests; at least one per server
	Connections int           `json:"connections" default:"4" help:"Connections, spread evenly over the servers; never more than callers."`
	Duration    time.Duration `json:"-" default:"10s" help:"How long to send requests. Ctrl-C stops early, waits at most a second for the last answers and shows the result; a second Ctrl-C exits at once."`
	Warmup      time.Duration `json:"-" kong:"-"` // length of the first part of Duration, in which nothing is measured
	Requests    int64         `json:"requests" default:"0" placeholder:"N" help:"Maximum number of requests, including the warm-up. 0 means no limit but the duration."`
	Timeout     time.Duration `json:"-" default:"0s" help:"Time after which a request is given up. It counts as failed, with its waiting time as latency. 0 means no timeout, but weir waits at most 10s for the last answers."`
	// Progress, if not nil, is called five times a second with the number of answers so far, and
	// with the share of the run that is complete, from 0 to 1.
	Progress func(answers int64, share float64) `json:"-" kong:"-"`

	Traffic
}

// check returns an error that names the flag of the first invalid option.
func (o *Options) check() error {
	servers := len(o.Servers)
	for _, flag := range []struct {
		name  string
		value any
		ok    bool
		want  string
	}{
		{"--connections", o.Connections, o.Connections >= servers, fmt.Sprintf("one for each server, %d or more", servers)},
		{"--callers", o.Callers, o.Callers >= max(servers, 1), fmt.Sprintf("one for each server, %d or more", servers)},
		{"--rate", o.Rate, o.Rate >= 0 && o.Rate <= 1e7, "up to 10000000 requests a second, or 0 for a closed loop"},
		{"--duration", o.Duration, o.Duration > 0, "more than 0"},
		{"--warmup", o.Warmup, o.Warmup >= 0 && o.Warmup < o.Duration, fmt.Sprintf("0 or more and less than the duration of %v", o.Duration)},
		{"--requests", o.Requests, o.Requests == 0 || o.Requests >= int64(servers), fmt.Sprintf("one for each server, %d or more, or 0 for any number", servers)},
		{"--timeout", o.Timeout, o.Timeout >= 0, "0 for none, or more"},
		{"--domain", strconv.Quote(o.Domain), o.Domain != "", "any text but an empty one"},
		{"--keys", o.Keys, o.Keys >= 1, "1 or more"},
		{"--descriptor", len(o.Descriptors), len(o.Descriptors) > 0, "one or more"},
		{"server", servers, servers > 0, "one or more"},
	} {
		if !flag.ok {
			return fmt.Errorf("%s: %v is not allowed; use %s", flag.name, flag.value, flag.want)
		}
	}
	for _, server := range o.Servers {
		// Without a port, gRPC would use 443.
		if _, _, err := net.SplitHostPort(server); err != nil && !strings.HasPrefix(server, "unix") {
			return fmt.Errorf("%w: expected is host:port such as 127.0.0.1:8081 or [::1]:8081, or unix:PATH", err)
		}
	}
	return nil
}

// Placeholder is replaced by the number of the key in the value of an entry.
const Placeholder = "{}"

// Traffic describes the requests.
type Traffic struct {
	Domain      string    `json:"domain" default:"api" help:"Domain of the requests."`
	Descriptors [][]Entry `json:"descriptors" kong:"-"` // descriptors of each request, at least one; every Placeholder is replaced
	Keys        int       `json:"keys" default:"1000" help:"Number of different keys."`
	Hits        uint32    `json:"hits" default:"1" help:"Units that each request asks for (hits_addend). 0 omits the field, which servers treat as 1."`
	// Draw, if not nil, returns a function that draws the number of the next key. If
	// Draw is nil, all keys from 0 to Keys-1 are equally likely.
	Draw func(*rand.Rand) func() int `json:"-" kong:"-"`
}

// Entry is one key and value of a descriptor.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// requests returns a function that makes the requests of one caller. The same seed always draws the same keys.
// Each call of the function changes and returns the same message, so a request is valid until the next call.
func (t *Traffic) requests(seed uint64) func() *ratelimitv3.RateLimitRequest {
	type keyed struct {
		entry   *commonv3.RateLimitDescriptor_Entry
		pattern string
	}
	var withKey []keyed
	message := &ratelimitv3.RateLimitRequest{Domain: t.Domain, HitsAddend: t.Hits}
	for _, entries := range t.Descriptors {
		d := new(commonv3.RateLimitDescriptor)
		for _, e := range entries {
			entry := &commonv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value}
			if strings.Contains(e.Value, Placeholder) {
				withKey = append(withKey, keyed{entry, e.Value})
			}
			d.Entries = append(d.Entries, entry)
		}
		message.Descriptors = append(message.Descriptors, d)
	}
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // keys need not be hard to guess
	draw := func() int { return rng.IntN(t.Keys) }
	if t.Draw != nil {
		draw = t.Draw(rng)
	}
	return func() *ratelimitv3.RateLimitRequest {
		number := strconv.Itoa(draw())
		for _, k := range withKey {
			k.entry.Value = strings.ReplaceAll(k.pattern, Placeholder, number)
		}
		return message
	}
}
