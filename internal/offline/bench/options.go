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

// Options say what load to put on which servers.
type Options struct {
	Servers []string // gRPC targets, such as host:port; connections are dealt out to them in turn
	// TLS is how servers are spoken to, and must not change any more. nil is without TLS.
	TLS         *tls.Config
	Connections int // one for each server or more; no more are made than there are callers
	Callers     int // requests that may wait for their answers at once, one for each server or more
	// Rate is how many requests a second an open loop plans. 0 makes a closed loop.
	Rate     float64
	Duration time.Duration // how long requests are sent
	Warmup   time.Duration // of that, at the start, is not measured
	Requests int64         // at most so many are sent, 0: no bound but Duration
	Timeout  time.Duration // from when it is sent, after which the client gives a request up, 0: never
	Traffic  Traffic
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
