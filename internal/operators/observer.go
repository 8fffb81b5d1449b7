package operators

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	grpcmetadata "google.golang.org/grpc/metadata"

	"weir/internal/plan"
)

// Observer hands on what became of requests: denials to those who count them, decisions to
// the log.
type Observer struct {
	Denials *Recorder
	Log     *DecisionLog // nil: nobody reads decisions
	Hashed  bool         // show digests instead of values
}

// Observe does nothing for an admitted request that is not logged. It is Observe of
// rls.Options.
func (ob *Observer) Observe(ctx context.Context, now time.Time, r *plan.Request, p *plan.Result) {
	all := ob.Log != nil && ob.Log.opts.All
	if !all && !p.AnyOver() {
		return
	}
	id := ob.requestID(ctx, r)
	for o := range p.Outcomes(r) {
		isDenial := o.Kind == plan.Denied || o.Kind == plan.Shadowed
		if isDenial {
			ob.Denials.Record(now, &Denial{
				Limit: o.Hit.Limit, RequestID: id, RetryAfter: o.Decision.RetryAfter, Shadow: o.Kind == plan.Shadowed,
				Asked: Asked{Domain: r.Domain, Entries: o.Counted, Patterns: o.Patterns, Key: o.Hit.Key, Hashed: ob.Hashed},
			})
		}
		if ob.Log != nil && (isDenial || all) && ob.Log.admit(now) {
			ob.Log.add(ob.record(ctx, now, r, o, id))
		}
	}
}

// logText bounds what is kept of a descriptor, and logRule what is shown of the texts of a
// rule, in bytes.
const (
	logText = 1024
	logRule = 256
)

func (ob *Observer) record(ctx context.Context, now time.Time, request *plan.Request, o *plan.Outcome, id string) LogRecord {
	r := LogRecord{Time: now.UTC(), Outcome: o.Kind.String(), RequestID: validUTF8(Begin(id, requestSize)), Trace: traceOf(ctx)}
	asked := Asked{Domain: request.Domain, Entries: o.Descriptor.Entries, Hashed: ob.Hashed}
	if o.Rule != nil {
		r.Rule, r.Location = o.Rule.Way(), Begin(o.Rule.Place(), logRule)
	}
	if o.Exception != nil {
		r.Exception = o.Exception.ID
	}
	if o.Hit != nil {
		asked.Key = o.Hit.Key
		labels := o.Hit.Limit.Series.Labels()
		r.Rule = labels.Rule // of an override, too
		r.Limit, r.Rate, r.Remaining = Begin(labels.Limit, logRule), o.Hit.Limit.Rate(), new(o.Decision.Remaining)
		if o.Decision.RetryAfter > 0 {
			r.RetryAfter = new(o.Decision.RetryAfter.Seconds())
		}
	}
	r.Rule = Begin(r.Rule, logRule)
	if r.Trace.HasTraceID() {
		r.TraceID = r.Trace.TraceID().String()
	}
	r.Descriptor = asked.Excerpt(logText)
	r.Domain = r.Descriptor.Domain
	return r
}

// RequestIDHeader is the metadata in which Envoy sends the ID of a request, if it is asked to.
const RequestIDHeader = "x-request-id"

// requestID returns the ID that Envoy gave a request, which is in an entry of a descriptor or
// in the metadata of the call, or "" if it is in neither. If values are not shown, it is in
// the metadata only.
func (ob *Observer) requestID(ctx context.Context, r *plan.Request) string {
	for i := range r.Descriptors {
		for _, e := range r.Descriptors[i].Entries {
			if !ob.Hashed && (e.Key == "request_id" || e.Key == RequestIDHeader) {
				return e.Value
			}
		}
	}
	if ids := grpcmetadata.ValueFromIncomingContext(ctx, RequestIDHeader); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// traceOf returns the trace that a call belongs to: that of the span that is sent, or, if
// none is, of the caller.
func traceOf(ctx context.Context) trace.SpanContext {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span
	}
	carrier := propagation.MapCarrier{}
	for _, name := range (propagation.TraceContext{}).Fields() {
		carrier[name] = strings.Join(grpcmetadata.ValueFromIncomingContext(ctx, name), ",")
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, carrier))
}
