package rls

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"

	"weir/internal/plan"
)

// Options are the parts and settings of a Service.
type Options struct {
	Decider *plan.Decider

	ResponseHeaders Headers // headers that Envoy adds to responses
	RequestHeaders  Headers // headers that Envoy adds to requests for the upstream
	DynamicMetadata bool    // return dynamic metadata: the request, the deciding limits, and the metadata of rules

	MaxConcurrent int           // maximum number of requests in flight; more are refused; 0 means no maximum
	Timeout       time.Duration // maximum time for a decision, in addition to the caller's deadline; 0 disables it

	// Observe is called with each decided request and the time of its arrival. It must not keep
	// references to its arguments. The context has the headers of the gRPC call, or the trace
	// context of the HTTP request. If Observe is nil, it is not called.
	Observe func(ctx context.Context, began time.Time, r *plan.Request, decided *plan.Result)

	Registerer prometheus.Registerer
	Logger     *slog.Logger // logs invalid and undecided requests at level Debug, and warns of unknown domains
}

// Service answers rate limit requests by gRPC and HTTP.
type Service struct {
	opts     Options
	metrics  *metrics
	inFlight atomic.Int64 // number of requests in flight, if MaxConcurrent limits it
	calls    sync.Pool    // pool of *call
}

// New returns a Service and registers its metrics with opts.Registerer.
func New(opts Options) *Service {
	return &Service{
		opts:    opts,
		metrics: newMetrics(opts.Registerer, opts.Logger),
		calls:   sync.Pool{New: func() any { return new(call) }},
	}
}

const methodName = "ShouldRateLimit"

// Register adds s to a gRPC server that was made with ServerOptions.
func (s *Service) Register(reg grpc.ServiceRegistrar) {
	desc := ratelimitv3.RateLimitService_ServiceDesc
	desc.HandlerType, desc.Methods = (*any)(nil), []grpc.MethodDesc{{MethodName: methodName, Handler: s.handle}}
	reg.RegisterService(&desc, s)
}

// handle serves one call of ShouldRateLimit, without interceptors. receive calls
// codec.Unmarshal.
func (s *Service) handle(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	if err := receive(c); err != nil {
		return nil, err
	}
	c.began = time.Now()
	defer s.metrics.grpc.observe(c.began)
	if err := s.decide(Arrived(ctx), c); err != nil {
		return nil, err
	}
	return &reply{mem.Copy(c.response, mem.DefaultBufferPool())}, nil
}

// errTooMany is the error of a request beyond MaxConcurrent. Such requests do not wait, because
// a queue would only make all requests late.
var errTooMany = grpcstatus.Error(codes.ResourceExhausted, "too many requests at once")

// decide decides the request in c.wire and writes the response to c.response. Its errors are gRPC
// statuses without internal details, because clients see them.
func (s *Service) decide(ctx context.Context, c *call) error {
	if s.opts.MaxConcurrent > 0 {
		defer s.inFlight.Add(-1)
		if s.inFlight.Add(1) > int64(s.opts.MaxConcurrent) {
			s.metrics.overloads.Inc()
			return errTooMany
		}
	}
	if s.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
	}
	if err := c.decode(s.opts.Decider.MaxDescriptors); err != nil {
		return s.undecided(ctx, c, plan.RequestError{Err: err})
	}
	err := s.opts.Decider.Decide(ctx, &c.request, &c.result)
	if asked := &c.result.Plan; asked.Unmatched > 0 {
		s.metrics.noteUnmatched(asked.Tree, &c.request, asked.Unmatched)
	}
	if err != nil {
		return s.undecided(ctx, c, err)
	}
	if c.result.Denied {
		s.metrics.denied.Inc()
	} else {
		s.metrics.admitted.Inc()
	}
	if invalid := c.result.Plan.Invalid; invalid != nil {
		s.opts.Logger.Debug("bad request", "err", invalid)
	}
	if c.result.WouldBeDenied {
		s.metrics.globalShadow.Inc()
	}
	if s.opts.Observe != nil {
		s.opts.Observe(ctx, c.began, &c.request, &c.result)
	}
	c.response = s.appendResponse(c.response, &c.request, &c.result)
	return nil
}

// undecided counts a request without a decision and returns the error for the client, which does
// not contain the store's error. For a request that is too large, it returns nil and writes a
// response without statuses, which denies the request unless ShadowMode is on.
func (s *Service) undecided(ctx context.Context, c *call, err error) error {
	if errors.Is(err, plan.ErrNoRules) {
		s.metrics.serviceErrors.Inc()
		return grpcstatus.Error(codes.Unavailable, err.Error())
	}
	if bad, ok := errors.AsType[plan.RequestError](err); ok {
		s.metrics.serviceErrors.Inc()
		s.opts.Logger.Debug("bad request", "err", bad.Err)
		if _, tooLarge := errors.AsType[plan.TooLargeError](err); tooLarge {
			c.response = appendUint(c.response, 1, codeOf(!s.opts.Decider.ShadowMode))
			return nil
		}
		return grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	s.metrics.storeErrors.Inc()
	s.opts.Logger.Debug("undecided request", "domain", c.request.Domain, "err", err)
	switch err := ctx.Err(); {
	case errors.Is(err, context.Canceled):
		return grpcstatus.Error(codes.Canceled, "the caller canceled the request")
	case errors.Is(err, context.DeadlineExceeded):
		return grpcstatus.Error(codes.DeadlineExceeded, "the store did not answer before the deadline")
	}
	return grpcstatus.Error(codes.Unavailable, "the counter store is unavailable")
}
