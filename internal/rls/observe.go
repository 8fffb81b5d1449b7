package rls

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	grpcmetadata "google.golang.org/grpc/metadata"

	"weir/internal/operators/decisionlog"
	"weir/internal/operators/denials"
	"weir/internal/operators/excerpt"
	"weir/internal/plan"
)

// observe hands on what became of the request in c: denials to those who count them,
// decisions to the log. It does nothing for an admitted request that is not logged.
func (s *Service) observe(ctx context.Context, c *call) {
	over, log := c.plan.AnyOver(), s.opts.Log
	if log != nil && (!over && !log.All() || !log.Sampled()) {
		log = nil
	}
	if log == nil && (!over || s.opts.Denials == nil) {
		return
	}
	now := c.began // to ask the clock again would cost as much as to record
	for o := range c.plan.Outcomes(&c.request.Request) {
		isDenial := o.Kind == plan.Denied || o.Kind == plan.Shadowed
		if isDenial && s.opts.Denials != nil {
			s.opts.Denials.Record(now, &denials.Denial{
				Limit: o.Hit.Limit, RetryAfter: o.Decision.RetryAfter, Shadow: o.Kind == plan.Shadowed,
				Source: excerpt.Source{
					Domain: c.request.Domain, Entries: o.Counted, Patterns: o.Patterns, Key: o.Hit.Key, Hashed: s.opts.Keys.DigestsValues(),
				},
			})
		}
		if log != nil && (isDenial || log.All()) && log.Admit(now) {
			log.Add(s.record(ctx, now, c, o))
		}
	}
}

// source is what may be shown of a descriptor.
func (s *Service) source(c *call, o *plan.Outcome) excerpt.Source {
	source := excerpt.Source{Domain: c.request.Domain, Entries: o.Descriptor.Entries, Hashed: s.opts.Keys.DigestsValues()}
	if o.Hit != nil {
		source.Key = o.Hit.Key
	}
	return source
}

func (s *Service) record(ctx context.Context, now time.Time, c *call, o *plan.Outcome) decisionlog.Record {
	source := s.source(c, o)
	r := decisionlog.Record{
		Time: now, Descriptor: source.Append(nil, decisionlog.TextSize), Outcome: o.Kind.String(), Trace: traceOf(ctx),
	}
	if o.Rule != nil {
		r.Rule, r.Place = o.Rule.Way(), o.Rule.Place()
	}
	if o.Exception != nil {
		r.Exception = o.Exception.ID
	}
	if o.Hit != nil {
		r.Rule = o.Hit.Limit.Series.Labels().Rule // of an override, too
		r.Limit, r.Remaining, r.RetryAfter = o.Hit.Limit, o.Decision.Remaining, o.Decision.RetryAfter
	}
	return r
}

// traceOf returns the trace that a call belongs to: that of the span that is sent, or, if
// none is, of the caller.
func traceOf(ctx context.Context) trace.SpanContext {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span
	}
	headers, _ := grpcmetadata.FromIncomingContext(ctx)
	ctx = propagation.TraceContext{}.Extract(ctx, carrier(headers))
	return trace.SpanContextFromContext(ctx)
}

// withTrace is the context of r with the trace that it belongs to.
func (s *Service) withTrace(r *http.Request) context.Context {
	if s.opts.Log == nil {
		return r.Context()
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

// carrier reads headers of gRPC.
type carrier grpcmetadata.MD

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string {
	if values := grpcmetadata.MD(c).Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(name, value string) { grpcmetadata.MD(c).Set(name, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return nil }
