package server

import (
	"context"
	"errors"
	"net"
	"sync"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"weir/internal/rls"
)

// health reports whether clients should send requests. They should if rules are loaded, the store
// works, assigned amounts are read, and the server is not about to stop. Rules stay loaded if later
// rules are invalid. Unless Settings.Redis.HealthCheckActiveConnection is true, a store that worked
// once counts as working, because failure modes decide while it fails.
type health struct {
	grpc     *grpchealth.Server
	draining context.Context
	drain    context.CancelFunc

	mu                                             sync.Mutex
	rulesLoaded, storeFound, assignedRead, leaving bool
}

func newHealth() *health {
	h := &health{grpc: grpchealth.NewServer()}
	h.draining, h.drain = context.WithCancel(context.Background())
	h.update(func() {})
	return h
}

func (h *health) setRulesLoaded()          { h.update(func() { h.rulesLoaded = true }) }
func (h *health) setAssignedRead()         { h.update(func() { h.assignedRead = true }) }
func (h *health) setStoreFound(found bool) { h.update(func() { h.storeFound = found }) }
func (h *health) setLeaving()              { h.update(func() { h.leaving = true }) }

// setDraining makes all health checks fail and ends all streams, such as watched health checks.
func (h *health) setDraining() {
	h.setLeaving()
	h.drain()
}

// err returns the reason why the server is unhealthy, or nil.
func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem()
}

func (h *health) problem() error {
	switch {
	case h.leaving:
		return errors.New("draining")
	case !h.rulesLoaded:
		return errors.New("no rules are loaded yet")
	case !h.storeFound:
		return errors.New("redis is unavailable")
	case !h.assignedRead:
		return errors.New("the assigned amounts have not been read yet")
	}
	return nil
}

// update calls the function change, and then sets the status of the gRPC health service, under
// the names that envoyproxy/ratelimit uses.
func (h *health) update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	serving := grpc_health_v1.HealthCheckResponse_SERVING
	if h.problem() != nil {
		serving = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	for _, service := range []string{"", "ratelimit"} {
		h.grpc.SetServingStatus(service, serving)
	}
}

// streams counts open streams by the host of their client.
type streams struct {
	sync.Mutex
	sum    int
	byHost map[string]int
}

// add adds n, which is 1 or -1, to the streams of host. It returns false if there is no room. The
// parameter most is the maximum for all hosts together; its last tenth is for hosts with few
// streams, so that one host cannot take all. A host may be a proxy for many Envoys.
func (s *streams) add(host string, n, most int) bool {
	s.Lock()
	defer s.Unlock()
	if n > 0 && (s.sum == most || s.sum >= most-most/10 && s.byHost[host] >= most/100) {
		return false
	}
	s.sum += n
	if s.byHost[host] += n; s.byHost[host] == 0 {
		delete(s.byHost, host)
	}
	return true
}

// endStreams returns an interceptor of streams. The parameter most is the maximum number of quota
// streams, and separately of all other streams, such as watched health checks. When the server
// drains, the interceptor ends all streams; otherwise the drain would last until the clients leave.
func (h *health) endStreams(most int) grpc.StreamServerInterceptor {
	quotas, others := &streams{byHost: map[string]int{}}, &streams{byHost: map[string]int{}}
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		streams := others
		if info.FullMethod == quotav3.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName {
			streams = quotas
		}
		from, _ := peer.FromContext(stream.Context()) // gRPC always sets it
		host, _, _ := net.SplitHostPort(from.Addr.String())
		if !streams.add(host, 1, most) {
			return status.Errorf(codes.ResourceExhausted, "too many streams at once; the limit is %d", most)
		}
		defer streams.add(host, -1, most)
		handled := make(chan error, 1)
		go func() {
			handled <- handler(srv, arrivedStream{stream, sync.OnceValue(func() context.Context { return rls.ArrivedStream(stream.Context()) })})
		}()
		select {
		case err := <-handled:
			return err
		case <-h.draining.Done():
			return status.Error(codes.Unavailable, "draining")
		}
	}
}

// arrivedStream is a stream whose method Context removes the time limit for the first message. Until
// Context is called, reads fail after that limit.
type arrivedStream struct {
	grpc.ServerStream
	arrived func() context.Context
}

// Context implements grpc.ServerStream.
func (s arrivedStream) Context() context.Context { return s.arrived() }
