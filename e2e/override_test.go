package e2e

import (
	"encoding/base64"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	units "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// Envoy can bring the limit along, in the place of the one of the rules: the
// one of the route, or the one that an earlier filter has put into metadata.
// Here the filter is one that decodes a header.
var overrides = gateway{
	filters: `
- name: envoy.filters.http.header_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
    request_rules:
      - header: x-plan
        on_header_present: {metadata_namespace: plan, key: limit, type: PROTOBUF_VALUE, encode: BASE64}
`,
	virtualHost: `
routes:
  - match: {path: /route}
    route:
      cluster: echo
      rate_limits:
        - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
          limit: {rate_limit: {requests_per_unit: 2, unit: MONTH}}
  - match: {path: /metadata}
    route:
      cluster: echo
      rate_limits:
        - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
          limit: {dynamic_metadata: {metadata_key: {key: plan, path: [{key: limit}]}}}
  - match: {path: /filter}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            limit: {dynamic_metadata: {metadata_key: {key: plan, path: [{key: limit}]}}}
`,
}

const oneADay = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]\n"

func TestOverridesReplaceTheLimitOfTheRules(t *testing.T) {
	t.Parallel()
	s := startGateway(t, overrides, startUpstream(t), oneADay)
	for _, c := range []struct {
		name, path, user, plan, limit string
		statuses                      []int
	}{
		{"of the route", "/route", "alice", "", "2, 2;w=2592000", []int{200, 200, 429}},
		{"of metadata", "/metadata", "bob", plan(t, 3, "YEAR"), "3, 3;w=31536000", []int{200, 200, 200, 429}},
		{"of metadata, for the filter", "/filter", "carol", plan(t, 2, "MONTH"), "2, 2;w=2592000", []int{200, 200, 429}},
		{"of nothing at all", "/metadata", "dave", plan(t, 0, "MONTH"), "0, 0;w=2592000", []int{429}},
		{"of a unit that Envoy does not know, so that it sends none", "/metadata", "erin", plan(t, 3, "FORTNIGHT"), "1, 1;w=86400", []int{200, 429}},
		{"none", "/metadata", "frank", "", "1, 1;w=86400", []int{200, 429}},
		{"of another plan than a moment ago", "/metadata", "frank", plan(t, 3, "DAY"), "3, 3;w=86400", []int{200, 200, 429}},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := []string{"x-user: " + c.user}
			if c.plan != "" {
				headers = append(headers, "x-plan: "+c.plan)
			}
			for i, want := range c.statuses {
				a := s.ask(c.path, headers...)
				if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != c.limit {
					t.Errorf("request %d: status %d with limit %q, want %d with %q", i+1, a.status, got, want, c.limit)
				}
			}
		})
	}
}

// Envoy sends a unit that is spelled UNKNOWN. The request is refused, so that
// failure_mode_deny decides, and Weir goes on.
func TestOverrideWithoutUnitIsRefused(t *testing.T) {
	t.Parallel()
	s := startGateway(t, overrides, startUpstream(t), oneADay)
	for range 3 {
		if a := s.ask("/metadata", "x-user: alice", "x-plan: "+plan(t, 3, "UNKNOWN")); a.status != 500 {
			t.Errorf("status %d, want 500", a.status)
		}
	}
	s.want("/metadata", "x-user: alice", 200, 429)
	s.weir.wantMetric(`ratelimit_service_should_rate_limit_error{err_type="service_error"} 3`)
}

// Envoy leaves out the unit_multiplier of an override; other clients of the
// protocol need not.
func TestOverrideForSeveralUnits(t *testing.T) {
	t.Parallel()
	awayFromMidnight(t)
	c := dial(t, startWeir(t, writeRules(t, oneADay)).grpc)
	d := descriptor("user", "alice")
	d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: 2, Unit: units.RateLimitUnit_DAY, UnitMultiplier: wrapperspb.UInt32(1000),
	}
	for i, want := range []service.RateLimitResponse_Code{1, 1, 2} {
		resp, err := c.ShouldRateLimit(t.Context(), &service.RateLimitRequest{
			Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{d},
		})
		if err != nil {
			t.Fatal(err)
		}
		if limit := resp.Statuses[0].CurrentLimit; resp.OverallCode != want || limit.UnitMultiplier.GetValue() != 1000 {
			t.Errorf("request %d: %v of %v, want %v of 2 per 1000 days", i+1, resp.OverallCode, limit, want)
		}
	}
}

// plan is the value of the header x-plan that stands for an override.
func plan(t *testing.T, requestsPerUnit int, unit string) string {
	t.Helper()
	value := testenv.Must(structpb.NewValue(map[string]any{"requests_per_unit": requestsPerUnit, "unit": unit}))(t)
	data := testenv.Must(proto.Marshal(value))(t)
	return base64.StdEncoding.EncodeToString(data)
}
