package rls

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"

	"weir/internal/plan"
	"weir/internal/testenv"
)

// An observer sees each request once it is decided, with the headers of a call of gRPC and
// with the trace of one of HTTP.
func TestRequestsAreObserved(t *testing.T) {
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var seen []string
	o := options(t, "domain: api\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}\n")
	o.Observe = func(ctx context.Context, began time.Time, r *plan.Request, p *plan.Result) {
		if time.Since(began) > time.Minute || r.Domain != "api" {
			t.Errorf("began %v, domain %q", began, r.Domain)
		}
		headers, _ := grpcmetadata.FromIncomingContext(ctx)
		seen = append(seen, headers.Get("traceparent")...)
		if span := trace.SpanContextFromContext(ctx); span.IsValid() {
			seen = append(seen, span.TraceID().String())
		}
		for outcome := range p.Outcomes(r) {
			seen = append(seen, outcome.Kind.String())
		}
	}
	s := o.service()
	conn := serve(t, s)
	ctx := grpcmetadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent)
	wire := message{}.string(1, "api").bytes(2, message{}.bytes(1, message{}.string(1, "user").string(2, "bob")))
	testenv.OK(t, conn.Invoke(ctx, "/"+serviceName+"/"+methodName, []byte(wire), new([]byte), grpc.ForceCodec(rawCodec{})))
	r := httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}]}`))
	r.Header.Set("Traceparent", traceparent)
	s.JSONHandler().ServeHTTP(httptest.NewRecorder(), r)
	want := []string{traceparent, "admitted", "0af7651916cd43dd8448eb211c80319c", "denied"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}
