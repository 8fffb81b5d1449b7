package rls

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/usage"
)

// Options says what a Service works with.
type Options struct {
	// Rules returns the rules of the moment. nil are none, which leaves
	// requests undecided.
	Rules   func() *descriptors.Tree
	Limiter *usage.Limiter
	Keys    limiter.Keys
	Charge  limiter.Charge // of limits that do not say it themselves; the zero value means Auto

	ShadowMode      bool    // deny nothing, but tell in the statuses what would be
	QuotaMode       bool    // take every enforced limit for a quota
	ResponseHeaders Headers // that Envoy adds to the response
	RequestHeaders  Headers // that Envoy adds to the request when it passes it on
	DynamicMetadata bool    // answer also what was asked, and the metadata of the rules that admitted it
	MaxDescriptors  int     // of one request, which is refused if it has more; 0 means 100

	MaxConcurrent int           // requests that are decided at a time; more are refused; 0 means any number
	Timeout       time.Duration // of a decision, beside the caller's own; 0 means none

	Registerer prometheus.Registerer
	Logger     *slog.Logger // undecided requests, at level Debug; domains without rules, once a minute
}

// Service answers Envoy's rate limit requests.
type Service struct {
	opts      Options
	overrides overrides
	metrics   *metrics
	unmatched *unmatched
	admission admission
	calls     sync.Pool // of *call
}

// New returns a Service whose metrics are registered with opts.Registerer.
func New(opts Options) *Service {
	opts.MaxDescriptors = cmp.Or(opts.MaxDescriptors, 100)
	return &Service{
		opts:      opts,
		metrics:   newMetrics(opts.Registerer),
		unmatched: newUnmatched(opts.Registerer, opts.Logger),
		admission: admission{most: int64(opts.MaxConcurrent)},
		calls:     sync.Pool{New: func() any { return new(call) }},
	}
}

const (
	serviceName = "envoy.service.ratelimit.v3.RateLimitService"
	methodName  = "ShouldRateLimit"
)

// Register adds s to a server that was made with ServerOptions.
func (s *Service) Register(reg grpc.ServiceRegistrar) {
	reg.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: methodName, Handler: handle}},
		Metadata:    ratelimitv3.File_envoy_service_ratelimit_v3_rls_proto.Path(),
	}, s)
}

// handle serves one call of ShouldRateLimit. To interceptors its request is a
// *call and its response a *reply, which they must neither change nor keep.
func handle(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Service)
	c := s.newCall()
	defer s.release(c)
	if err := decode(c); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return s.shouldRateLimit(ctx, c)
	}
	info := &grpc.UnaryServerInfo{Server: s, FullMethod: "/" + serviceName + "/" + methodName}
	return interceptor(ctx, c, info, func(ctx context.Context, _ any) (any, error) {
		return s.shouldRateLimit(ctx, c)
	})
}

func (s *Service) shouldRateLimit(ctx context.Context, c *call) (any, error) {
	defer s.metrics.grpc.observe(time.Now())
	if err := s.decide(ctx, c); err != nil {
		return nil, err
	}
	c.reply = c.answer.append(c.reply)
	return newReply(c.reply), nil
}

// decide decides the request in c.wire and fills in c.answer. Its errors are
// gRPC statuses that Envoy may see.
func (s *Service) decide(ctx context.Context, c *call) error {
	if !s.admission.enter() {
		s.metrics.overloads.Inc()
		return errTooMany
	}
	defer s.admission.leave()
	if s.opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
	}
	tree := s.opts.Rules()
	if tree == nil {
		s.metrics.serviceErrors.Inc()
		return grpcstatus.Error(codes.Unavailable, "no rules are loaded")
	}
	if err := s.prepare(c, tree); err != nil {
		s.metrics.serviceErrors.Inc()
		s.opts.Logger.Debug("bad request", "err", err)
		return grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	denied, err := s.opts.Limiter.Decide(ctx, c.hits, c.decisions)
	if err != nil {
		s.metrics.storeErrors.Inc()
		s.opts.Logger.Debug("undecided request", "domain", c.request.domain, "err", err)
		return undecided(ctx)
	}
	c.settle(denied, &s.opts)
	if s.opts.ShadowMode && c.wouldBeDenied(&s.opts) {
		s.metrics.globalShadow.Inc()
	}
	c.answer.responseHeaders = s.opts.ResponseHeaders.about(&c.answer)
	c.answer.requestHeaders = s.opts.RequestHeaders.about(&c.answer)
	if s.opts.DynamicMetadata {
		// The hits are counted by now: rather an answer without metadata than none.
		if c.answer.metadata, err = c.metadata(); err != nil {
			s.opts.Logger.Debug("no dynamic metadata", "err", err)
		}
	}
	return nil
}

// prepare reads the request in c.wire and finds its hits.
func (s *Service) prepare(c *call, tree *descriptors.Tree) error {
	if err := c.request.decode(c.wire, s.opts.MaxDescriptors); err != nil {
		return err
	}
	if err := c.request.check(); err != nil {
		return err
	}
	if err := c.match(tree, &s.overrides); err != nil {
		return err
	}
	if c.unmatched > 0 {
		s.unmatched.note(tree, c.request.domain, c.unmatched)
	}
	c.addHits(&s.opts)
	return nil
}

// undecided is the error for a request that the store did not decide. Why it
// did not is not for the client to know.
func undecided(ctx context.Context) error {
	switch err := ctx.Err(); {
	case errors.Is(err, context.Canceled):
		return grpcstatus.Error(codes.Canceled, "the caller cancelled the request")
	case errors.Is(err, context.DeadlineExceeded):
		return grpcstatus.Error(codes.DeadlineExceeded, "the store did not decide within the deadline")
	}
	return grpcstatus.Error(codes.Unavailable, "the store of the counters is unavailable")
}
