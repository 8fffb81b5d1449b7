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

// Options says what a Service works with.
type Options struct {
	Decider *plan.Decider

	ResponseHeaders Headers // that Envoy adds to the response
	RequestHeaders  Headers // that Envoy adds to the request when it passes it on
	DynamicMetadata bool    // answer also what was asked, and the metadata of the rules that admitted it

	MaxConcurrent int           // requests that are decided at a time; more are refused; 0 means any number
	Timeout       time.Duration // of a decision, beside the caller's own; 0 means none

	// Observe is called with each decided request and when it came. It must keep nothing of it.
	// The context has the headers of the call, or its trace. nil: nobody does.
	Observe func(ctx context.Context, began time.Time, r *plan.Request, decided *plan.Result)

	Registerer prometheus.Registerer
	Logger     *slog.Logger // undecided requests, at level Debug; domains without rules, once a minute
}

// Service answers Envoy's rate limit requests.
type Service struct {
	opts    Options
	metrics *metrics
	inside  atomic.Int64 // how many requests are being decided, if there is a bound
	calls   sync.Pool    // of *call
}

// New returns a Service whose metrics are registered with opts.Registerer.
func New(opts Options) *Service {
	return &Service{
		opts:    opts,
		metrics: newMetrics(opts.Registerer, opts.Logger),
		calls:   sync.Pool{New: func() any { return new(call) }},
	}
}

const methodName = "ShouldRateLimit"

// Register adds s to a server that was made with ServerOptions.
func (s *Service) Register(reg grpc.ServiceRegistrar) {
	desc := ratelimitv3.RateLimitService_ServiceDesc
	desc.HandlerType, desc.Methods = (*any)(nil), []grpc.MethodDesc{{MethodName: methodName, Handler: s.handle}}
	reg.RegisterService(&desc, s)
}

// handle serves one call of ShouldRateLimit. The server has no interceptors of such calls.
func (s *Service) handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	if err := decode(c); err != nil {
		return nil, err
	}
	c.began = time.Now()
	defer s.metrics.grpc.observe(c.began)
	if err := s.decide(ctx, c); err != nil {
		return nil, err
	}
	return &reply{mem.Copy(c.reply, mem.DefaultBufferPool())}, nil
}

// errTooMany is the answer to a request beyond MaxConcurrent. It is refused at once: to
// queue would only make every request late.
var errTooMany = grpcstatus.Error(codes.ResourceExhausted, "too many requests at once")

// decide decides the request in c.wire and writes the answer to c.reply. Its errors are
// gRPC statuses that Envoy may see.
func (s *Service) decide(ctx context.Context, c *call) error {
	if s.opts.MaxConcurrent > 0 {
		defer s.inside.Add(-1)
		if s.inside.Add(1) > int64(s.opts.MaxConcurrent) {
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
		s.metrics.noteUnmatched(asked.Tree, c.request.Domain, asked.Unmatched)
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
	c.reply = s.appendResponse(c.reply, &c.request, &c.result)
	return nil
}

// undecided counts a request without a decision, and returns the error that the client
// gets. Why the store did not decide is not for the client to know. One that is too large is
// denied without statuses instead.
func (s *Service) undecided(ctx context.Context, c *call, err error) error {
	if errors.Is(err, plan.ErrNoRules) {
		s.metrics.serviceErrors.Inc()
		return grpcstatus.Error(codes.Unavailable, err.Error())
	}
	if bad, ok := errors.AsType[plan.RequestError](err); ok {
		s.metrics.serviceErrors.Inc()
		s.opts.Logger.Debug("bad request", "err", bad.Err)
		if _, tooLarge := errors.AsType[plan.TooLargeError](err); tooLarge {
			c.reply = appendUint(c.reply, 1, codeOf(!s.opts.Decider.ShadowMode))
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
