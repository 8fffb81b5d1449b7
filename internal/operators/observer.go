package operators

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	grpcmetadata "google.golang.org/grpc/metadata"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// Observer passes the denials of requests to a Recorder, the use of budgets to Spending and Events,
// and decisions to a DecisionLog.
type Observer struct {
	Recorder *Recorder
	Spending *Spending
	Events   *Events      // or nil to send no events
	Log      *DecisionLog // or nil to log no decisions
	Hashed   bool         // show digests instead of values
}

// Observe records a decided request, and does not retain r. It serves as Observe in rls.Options. A request that
// Envoy sends after the response, such as a late charge, is logged, but not recorded as a denial.
func (ob *Observer) Observe(ctx context.Context, now time.Time, r *plan.Request, p *plan.Result) {
	ob.Spending.sent.observe(r, &p.Plan)
	ob.observeBudgets(now, r, p)
	all := ob.Log != nil && ob.Log.opts.All
	if !all && !p.AnyOver() {
		return
	}
	id, codes := ob.requestID(ctx, r), grpcmetadata.ValueFromIncomingContext(ctx, ResponseCodeHeader)
	answered := len(codes) > 0 && codes[0] != "0"
	for o := range p.Outcomes(r) {
		isDenial := o.Kind == plan.Denied || o.Kind == plan.Shadowed
		if isDenial && !answered {
			ob.Recorder.Record(now, &Denial{
				Limit: o.Hit.Limit, Hits: p.Plan.Hits, RequestID: id, RetryAfter: o.Decision.RetryAfter, Shadow: o.Kind == plan.Shadowed,
				Asked: ob.asked(r, o),
			})
		}
		if ob.Log != nil && (isDenial || all) && ob.Log.admit(now) {
			ob.Log.add(ob.record(ctx, now, r, o, id))
		}
	}
}

// asked returns the descriptor of an outcome, as it is counted. The outcome must have a hit.
func (ob *Observer) asked(r *plan.Request, o *plan.Outcome) Asked {
	return Asked{Domain: r.Domain, Entries: o.Counted, Patterns: o.Patterns, Key: o.Hit.Key, Hashed: ob.Hashed}
}

// observeBudgets notes each counter of a budget if the request changed the used percentage, exceeded the
// limit, or sent a limit, which may have changed the amount.
func (ob *Observer) observeBudgets(now time.Time, r *plan.Request, p *plan.Result) {
	hits, i := p.Plan.Hits, 0 // i is the index of the next outcome's hit
	if !slices.ContainsFunc(hits, func(h limiter.Hit) bool { return h.Limit.IsBudget() }) {
		return
	}
	var room [16]int64
	taken := limiter.Taken(hits, p.Decisions, room[:0])
	for o := range p.Outcomes(r) {
		if o.Hit == nil {
			continue
		}
		if i++; !o.Hit.Limit.IsBudget() {
			continue
		}
		before, after := limiter.Passed(o.Hit, o.Decision.Used, taken[i-1])
		if before == after && !o.Decision.Over && !o.Descriptor.HasOverride {
			continue
		}
		asked := ob.asked(r, o)
		ob.Spending.observe(now, &asked, o.Hit, o.Decision, before, after)
		if ob.Events != nil {
			ob.Events.reach(now, &asked, o.Hit, o.Decision, before, after)
		}
	}
}

const (
	logText = 1024 // maximum size of a logged descriptor, in bytes
	logRule = 256  // maximum size of each text of a rule
)

func (ob *Observer) record(ctx context.Context, now time.Time, request *plan.Request, o *plan.Outcome, id string) LogRecord {
	r := LogRecord{Time: now.UTC(), Outcome: o.Kind.String(), RequestID: validUTF8(Begin(id, requestSize)), Trace: traceOf(ctx)}
	asked := Asked{Domain: request.Domain, Entries: o.Descriptor.Entries, Hashed: ob.Hashed}
	if o.Rule != nil {
		r.Rule, r.Location = o.Rule.Way(), Begin(o.Rule.Location(), logRule)
	}
	if o.Exception != nil {
		r.Exception = o.Exception.ID
	}
	if o.Hit != nil {
		asked.Key = o.Hit.Key
		labels := o.Hit.Limit.Series.Labels()
		r.Rule = labels.Rule // also set for an override
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

// Metadata in which Envoy can send a request's ID, and the status code of its response, or 0 before the response.
const (
	RequestIDHeader    = "x-request-id"
	ResponseCodeHeader = "x-response-code"
)

// requestID returns a request's ID from an entry of its descriptors or from the metadata of the call, or ""
// if neither has one. If Hashed is set, requestID reads only the metadata.
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

// traceOf returns this server's span of a call, or the caller's span if this server has none.
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
