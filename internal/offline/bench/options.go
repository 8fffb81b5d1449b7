package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc/resolver"
)

// Options say what load to put on which servers. Their tags are flags of the command.
type Options struct {
	Servers []string `arg:"" optional:"" name:"server" default:"127.0.0.1:8081" help:"gRPC addresses of the servers, such as host:port or unix:PATH, by default 127.0.0.1:8081. Any server of Envoy's RateLimitService v3 will do."`
	// TLS must not change any more. nil is without TLS.
	TLS *tls.Config `kong:"-"`

	Rate        float64       `default:"0" help:"Requests per second of an open loop, sent by a plan that waits for no answer; latencies count from the planned time, and those of requests that fail or are never sent until they are given up. By default a closed loop: each caller sends its next request when the last is answered."`
	Callers     int           `kong:"-"` // requests that may wait for their answers at once, one for each server or more
	Connections int           `default:"4" help:"Connections, dealt out to the servers in turn; never more than callers."`
	Duration    time.Duration `default:"10s" help:"How long requests are sent. An interruption (Ctrl-C) ends them early, waits a second at most for the last answers, and shows what was measured; a second one ends at once."`
	Warmup      time.Duration `kong:"-"` // of that, at the start, is not measured
	Requests    int64         `default:"0" placeholder:"N" help:"At most so many requests are sent, those of the warm-up included. 0 is no bound but the duration."`
	Timeout     time.Duration `default:"0s" help:"After which a request is given up, since it was sent; it counts as failed, and with the time it waited in the latencies. 0 is never. The last answers are waited for at most 10s."`

	Traffic Traffic `embed:""`
}

// check finds what is wrong with the options.
func (o *Options) check() error {
	switch {
	case len(o.Servers) == 0:
		return errors.New("no server is given")
	case o.Connections < len(o.Servers):
		return fmt.Errorf("--connections: %d is too few, each server needs one: %d or more", o.Connections, len(o.Servers))
	case o.Callers < 1:
		return fmt.Errorf("--callers: %d can send nothing, allowed is 1 or more", o.Callers)
	case o.Callers < len(o.Servers):
		return fmt.Errorf("--callers: %d is too few, each server needs one: %d or more", o.Callers, len(o.Servers))
	case !(o.Rate >= 0 && o.Rate <= 1e7): // which is true of what is no number, too
		return fmt.Errorf("--rate: %g is not allowed, allowed is up to 10000000 requests a second, or 0 for a closed loop", o.Rate)
	case o.Duration <= 0:
		return fmt.Errorf("--duration: %v is not allowed, allowed is more than 0", o.Duration)
	case o.Warmup < 0 || o.Warmup >= o.Duration:
		return fmt.Errorf("--warmup: %v is not allowed, allowed is 0 or more and less than the duration of %v", o.Warmup, o.Duration)
	case o.Requests < 0:
		return fmt.Errorf("--requests: %d is not allowed, allowed is 0 for any number, or more", o.Requests)
	case o.Requests > 0 && o.Requests < int64(len(o.Servers)):
		return fmt.Errorf("--requests: %d is too few, each server needs one: %d or more", o.Requests, len(o.Servers))
	case o.Timeout < 0:
		return fmt.Errorf("--timeout: %v is not allowed, allowed is 0 for none, or more", o.Timeout)
	}
	for _, server := range o.Servers {
		if err := checkServer(server); err != nil {
			return fmt.Errorf("server %q: %w", server, err)
		}
	}
	return o.Traffic.check()
}

// checkServer refuses what gRPC would take in a way that is hardly meant: it
// would ask what has no port at port 443.
func checkServer(target string) error {
	if u, err := url.Parse(target); err == nil && resolver.Get(u.Scheme) != nil {
		return nil // such as unix:PATH, of which the resolver of that name is the judge
	}
	_, port, err := net.SplitHostPort(target)
	why := "missing port in address"
	if port != "" {
		why = fmt.Sprintf("%q is not a port, allowed are 1 to 65535", port)
	}
	if malformed, ok := errors.AsType[*net.AddrError](err); ok {
		why = malformed.Err
	} else if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
		return nil
	}
	return fmt.Errorf("%s; expected is host:port such as 127.0.0.1:8081 or [::1]:8081, or unix:PATH", why)
}
