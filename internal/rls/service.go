// Package rls is Envoy's face of Weir: the gRPC service
// envoy.service.ratelimit.v3.RateLimitService and its twin POST /json.
//
// A request goes through these files in this order: codec.go takes the bytes
// from gRPC, decode.go makes a plan.Request of them, service.go has it planned,
// asks the limiter, has the plan set its statuses and shows them to an observer, headers.go and metadata.go add what is optional, encode.go writes the bytes
// of the response. json.go brings JSON onto the same path.
//
// The messages are read and written by hand rather than by generated code,
// because Envoy puts the raw bytes of headers into protobuf strings: a value
// that is not UTF-8 must be counted like any other, while generated code refuses
// the whole request, and Envoy then lets it pass unlimited.
//
// The package holds no rules and no counters, and opens no listener.
package rls

import (
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
	"weir/internal/plan"
	"weir/internal/telemetry"
)

// Options says what a Service works with.
type Options struct {
	// Rules returns the rules of the moment. nil are none, which leaves
	// requests undecided.
	Rules   func() *descriptors.Tree
	Limiter *telemetry.Limiter
	plan.Options

	ResponseHeaders Headers // that Envoy adds to the response
	RequestHeaders  Headers // that Envoy adds to the request when it passes it on
	DynamicMetadata bool    // answer also what was asked, and the metadata of the rules that admitted it

	MaxConcurrent int           // requests that are decided at a time; more are refused; 0 means any number
	Timeout       time.Duration // of a decision, beside the caller's own; 0 means none

	// Observe takes what became of a request, of which it keeps nothing, and when it came.
	// The context has the headers of the call, or its trace. nil: nobody does.
	Observe func(ctx context.Context, began time.Time, r *plan.Request, decided *plan.Plan)

	Registerer prometheus.Registerer
	Logger     *slog.Logger // undecided requests, at level Debug; domains without rules, once a minute
}

// Service answers Envoy's rate limit requests.
type Service struct {
	opts      Options
	planner   *plan.Planner
	metrics   *metrics
	unmatched *unmatched
	admission admission
	calls     sync.Pool // of *call
}

// New returns a Service whose metrics are registered with opts.Registerer.
func New(opts Options) *Service {
	return &Service{
		opts:      opts,
		planner:   plan.New(opts.Options),
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
	c.began = time.Now()
	defer s.metrics.grpc.observe(c.began)
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
	denied, err := s.opts.Limiter.Decide(ctx, c.plan.Hits, c.plan.Decisions)
	if err != nil {
		s.metrics.storeErrors.Inc()
		s.opts.Logger.Debug("undecided request", "domain", c.request.Domain, "err", err)
		return undecided(ctx)
	}
	c.plan.SetStatuses(denied)
	s.metrics.decided(denied)
	if c.plan.WouldBeDenied() {
		s.metrics.globalShadow.Inc()
	}
	if s.opts.Observe != nil {
		s.opts.Observe(ctx, c.began, &c.request.Request, &c.plan)
	}
	s.answer(c)
	return nil
}

// prepare reads the request in c.wire and plans it.
func (s *Service) prepare(c *call, tree *descriptors.Tree) error {
	if err := c.request.decode(c.wire, s.planner.MaxDescriptors); err != nil {
		return err
	}
	if err := s.planner.Prepare(&c.plan, tree, &c.request.Request); err != nil {
		return err
	}
	if c.plan.Unmatched > 0 {
		s.unmatched.note(tree, c.request.Domain, c.plan.Unmatched)
	}
	return nil
}

// answer fills in c.answer from the statuses of the plan.
func (s *Service) answer(c *call) {
	statuses := c.plan.Statuses
	c.answer = answer{
		overLimit:       c.plan.Denied,
		statuses:        statuses,
		responseHeaders: s.opts.ResponseHeaders.about(statuses),
		requestHeaders:  s.opts.RequestHeaders.about(statuses),
	}
	if s.opts.DynamicMetadata {
		// The hits are counted by now: rather an answer without metadata than none.
		var err error
		if c.answer.metadata, err = metadata(&c.request.Request, statuses); err != nil {
			s.opts.Logger.Debug("no dynamic metadata", "err", err)
		}
	}
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
