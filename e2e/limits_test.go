package e2e

import (
	"encoding/base64"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/internal/testenv"
)

const limitRules = `
domain: api
descriptors:
  - {key: remote_address, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: user, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: user, value: root, rate_limit: {unlimited: true}}
  - key: user
    value: carol
    rate_limit: {unit: day, requests_per_unit: 5}
    descriptors:
      - {key: path, value: /login, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: user, value: tokyo, rate_limit: {unit: month, requests_per_unit: 2, algorithm: calendar, time_zone: Asia/Tokyo}}
  - {key: term, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: path, value: /reports, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
`

// isUntil reports whether header is the number of seconds until end, for a request that
// began at began and has just been answered.
func isUntil(header string, began, end time.Time) bool {
	seconds, err := strconv.ParseFloat(header, 64)
	return err == nil && seconds >= time.Until(end).Seconds()-1 && seconds <= end.Sub(began).Seconds()+1
}

func TestLimits(t *testing.T) {
	inEachStore(t, limitRules, func(t *testing.T, s *stack) {
		t.Run("a limit admits its amount and shows it", func(t *testing.T) {
			for i, remaining := range []string{"1", "0", "0", "0"} {
				began := time.Now()
				a := s.ask("/", by("alice")...)
				if want := times(2, 200, 429, 429)[i]; a.status != want || a.header.Get("x-ratelimit-remaining") != remaining || a.header.Get("x-ratelimit-limit") != "2, 1000;w=86400, 2;w=86400" {
					t.Errorf("request %d: status %d, want %d with %s remaining; headers %v", i+1, a.status, want, remaining, a.header)
				}
				reset, retry := a.header.Get("x-ratelimit-reset"), a.header.Get("retry-after")
				if day := began.Truncate(24 * time.Hour).Add(24 * time.Hour); !isUntil(reset, began, day) {
					t.Errorf("request %d: x-ratelimit-reset is %q, want the seconds until %v", i+1, reset, day)
				}
				if a.status == 200 && retry != "" || a.status == 429 && retry != reset {
					t.Errorf("request %d: retry-after is %q, x-ratelimit-reset %q", i+1, retry, reset)
				}
			}
		})
		t.Run("a denied request consumes nothing", func(t *testing.T) {
			before := s.weir.remaining("remote_address", "127.0.0.1")
			s.want("/login", "x-user: carol", 200, 200, 429, 429) // three descriptors
			s.want("/", "x-user: carol", 200, 200, 200, 429)
			testenv.Equal(t, s.weir.remaining("remote_address", "127.0.0.1"), before-5, "requests that the address has left")
		})
		t.Run("users have limits of their own", func(*testing.T) {
			s.want("/", "x-user: bob", 200, 200, 429)
			s.want("/", "x-user: root", 200, 200, 200)
			s.want("/", "x-nobody: ", 200, 200, 200)
		})
		// Envoy forwards the bytes of a header or query parameter unchanged, even if they are
		// not UTF-8 and so no valid protobuf string. They must not bypass a limit.
		t.Run("values that are no text", func(*testing.T) {
			for _, user := range []string{"dave\xff", "dave\xfe", "dave\xc3", "dave"} {
				s.want("/", "x-user: "+user, 200, 200, 429, 429)
			}
			for _, term := range []string{"%ff", "%fe"} {
				s.want("/search?q="+term, "x-user: ", 200, 200, 429, 429)
			}
		})
		t.Run("a month ends with the calendar's, in the time zone of the limit", func(t *testing.T) {
			s.want("/", "x-user: tokyo", 200, 200)
			began := time.Now()
			tokyo := began.In(time.FixedZone("Asia/Tokyo", 9*60*60))
			month := time.Date(tokyo.Year(), tokyo.Month()+1, 1, 0, 0, 0, 0, tokyo.Location())
			a := s.ask("/", by("tokyo")...)
			if retry := a.header.Get("retry-after"); a.status != 429 || !isUntil(retry, began, month) {
				t.Errorf("status %d, retry-after %q; want 429 and the seconds until %v", a.status, retry, month)
			}
		})
		t.Run("a shadow limit never denies", func(*testing.T) {
			s.want("/reports", "x-user: alice", times(5, 200)...)
			s.weir.waitForMetric(`ratelimit_service_rate_limit_shadow_mode{domain="api",key1="path_/reports",key2=""} 3`)
		})
	})
}

// contour is the configuration that Contour generates from the manifests in
// examples/contour. A route's policy replaces the virtual host's. Clients choose their
// address with x-forwarded-for.
var contour = gateway{
	cluster: "name: extension/projectcontour/weir",
	rateLimit: `
domain: contour
failure_mode_deny: false
enable_x_ratelimit_headers: DRAFT_VERSION_03
rate_limit_service:
  transport_api_version: V3
  grpc_service: {envoy_grpc: {cluster_name: extension/projectcontour/weir, authority: extension.projectcontour.weir}}
`,
	virtualHost: `
rate_limits: [{actions: [{remote_address: {}}]}]
routes:
  - match: {prefix: /login}
    route:
      cluster: echo
      rate_limits:
        - actions: [{remote_address: {}}]
        - actions: [{generic_key: {descriptor_value: login}}]
        - actions: [{generic_key: {descriptor_value: login}}, {remote_address: {}}]
  - match: {prefix: /}
    route: {cluster: echo}
`,
	manager: "{use_remote_address: true, xff_num_trusted_hops: 1}",
}

// forwarded lets clients choose their address with x-forwarded-for, so that a test can have
// several clients.
var forwarded = gateway{
	virtualHost: "rate_limits: [{actions: [{remote_address: {}}]}]\nroutes: [{match: {prefix: /}, route: {cluster: echo}}]\n",
	manager:     "{use_remote_address: true, xff_num_trusted_hops: 1}",
}

// networkRules match the value of remote_address, an address without prefix length, by the
// network with the longest prefix.
const networkRules = `
domain: api
descriptors:
  - {key: remote_address, networks: [10.0.0.0/8, "2001:db8::/32"], share_threshold: true, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: remote_address, networks: [10.1.0.0/16], rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: remote_address, value: [10.1.0.1]}
`

func from(client string) []string { return []string{"x-forwarded-for: " + client} }

// overrides is an Envoy that sends limits with its descriptors, which replace the limits of
// the rules. It takes them from the route, or from metadata of an earlier filter. Here, that
// filter decodes a header.
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
  - match: {path: /filter}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            limit: &plan {dynamic_metadata: {metadata_key: {key: plan, path: [{key: limit}]}}}
  - match: {path: /judged}
    route:
      cluster: echo
      rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: tenant}}], limit: *plan}]
  - match: {path: /metadata}
    route:
      cluster: echo
      rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}], limit: *plan}]
`,
}

// In overrideRules, the rule of a tenant sets the algorithm and the maximum of an override.
const overrideRules = `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 10, algorithm: token_bucket, burst: 2}
    override: {max_requests_per_unit: 10}
`

// below sends one descriptor for each request, to which the limits of all levels apply. Its
// cluster has a name like Istio's, which Envoy sends as :authority.
var below = gateway{
	cluster:   "name: outbound|8081||ratelimit.default.svc.cluster.local",
	rateLimit: `rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: "outbound|8081||ratelimit.default.svc.cluster.local"}}}`,
	virtualHost: `
routes:
  - match: {path: /other}
    route: {cluster: echo, rate_limits: [{actions: [{generic_key: {descriptor_value: other}}]}]}
  - match: {prefix: /}
    route:
      cluster: echo
      rate_limits:
        - actions:
            - request_headers: {header_name: x-user, descriptor_key: user}
            - request_headers: {header_name: ":path", descriptor_key: path}
`,
}

const belowRules = `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 100, algorithm: first_hit}
    descriptors:
      - {key: path, value: /login, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: first_hit}}
  - {rate_limit: {unit: day, requests_per_unit: 2}}
`

// TestShapesOfGateways sends requests to gateways that build descriptors in different ways,
// and compares statuses and the limit in Envoy's header.
func TestShapesOfGateways(t *testing.T) {
	t.Parallel()
	// with returns the headers of a user with a plan, which Envoy sends as an override.
	with := func(user string, requestsPerUnit int, unit string) []string {
		value := testenv.Must(structpb.NewValue(map[string]any{"requests_per_unit": requestsPerUnit, "unit": unit}))(t)
		return append(by(user), "x-plan: "+base64.StdEncoding.EncodeToString(testenv.Must(proto.Marshal(value))(t)))
	}
	const plain, login = "100, 100;w=60", "3, 100;w=60, 50;w=1, 3;w=60"
	contourRules := readDocument(t, "examples/contour/rules/contour.yaml")
	for name, c := range map[string]struct {
		gateway gateway
		rules   string
		period  time.Duration // must not end between the requests
		asked   []asked
	}{
		"Contour": {contour, contourRules, time.Minute, []asked{
			{"/", from("192.0.2.1"), plain, times(4, 200)},
			{"/login", from("192.0.2.1"), login, times(3, 200, 429)},
			{"/", from("192.0.2.1"), plain, times(1, 200)},
			{"/login", from("192.0.2.2"), login, times(3, 200, 429)},
		}},
		"networks": {forwarded, networkRules, 24 * time.Hour, []asked{
			{"/", from("10.1.0.1"), "", times(3, 200)},                         // an exact value, without a limit
			{"/", from("10.1.2.3"), "1, 1;w=86400", times(1, 200, 429)},        // the longest prefix
			{"/", from("10.1.2.4"), "1, 1;w=86400", times(1, 200, 429)},        // has its own counter
			{"/", from("10.2.3.4"), "4, 4;w=86400", times(1, 200)},             // the rule with two networks
			{"/", from("2001:db8::1"), "4, 4;w=86400", times(1, 200)},          // shares the counter
			{"/", from("2001:0DB8:0::2"), "4, 4;w=86400", times(1, 200)},       // in another spelling
			{"/", from("::ffff:10.3.4.5"), "4, 4;w=86400", times(1, 200, 429)}, // an IPv4 address in IPv6 form
			{"/", from("192.0.2.1"), "", times(2, 200)},                        // no network
			{"/", from("2001:db9::1"), "", times(2, 200)},                      // no network
		}},
		"overrides": {overrides, overrideRules, 24 * time.Hour, []asked{
			{"/route", by("alice"), "2, 2;w=2592000", times(2, 200, 429)},
			{"/metadata", with("bob", 3, "YEAR"), "3, 3;w=31536000", times(3, 200, 429)},
			{"/filter", with("carol", 2, "MONTH"), "2, 2;w=2592000", times(2, 200, 429)},
			{"/metadata", with("dave", 0, "MONTH"), "0, 0;w=2592000", times(1, 429)},
			{"/metadata", with("erin", 3, "FORTNIGHT"), "1, 1;w=86400", times(1, 200, 429)}, // Envoy does not know the unit and sends no override
			{"/metadata", by("frank"), "1, 1;w=86400", times(1, 200, 429)},
			{"/metadata", with("frank", 3, "DAY"), "3, 3;w=86400", times(2, 200, 429)}, // the same user, now with a plan
			{"/judged", with("alice", 5, "DAY"), "5, 5;w=86400", times(1, 200, 429)},
			{"/judged", with("bob", 1_000_000, "DAY"), "10, 10;w=86400", times(2, 200, 429)},
			{"/judged", with("carol", 1_000_000, "SECOND"), "10, 10;w=86400", times(2, 200, 429)},
			// Envoy does send the unit UNKNOWN, which a client may have chosen. An error would let the
			// request pass, without failure_mode_deny. Later requests work.
			{"/metadata", with("grace", 3, "UNKNOWN"), `0, 0;w=86400;name="deny"`, times(3, 429)},
			{"/metadata", by("grace"), "1, 1;w=86400", times(1, 200, 429)},
		}},
		"limits of all levels": {below, belowRules, 24 * time.Hour, []asked{
			{"/login", by("alice"), "20, 20;w=3600", times(20, 200, 429, 429, 429)},
			{"/cart", by("alice"), "100, 100;w=60", times(80, 200, 429, 429)}, // requests that the limit of /login denies are not counted
			{"/other-cart", by("alice"), "100, 100;w=60", times(1, 429)},
			{"/login", by("bob"), "20, 20;w=3600", times(1, 200)},
			{"/other", by("alice"), "2, 2;w=86400", times(2, 200, 429)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.gateway.start(t, c.rules)
			awayFromEnd(c.period)
			s.wantLimits(c.asked...)
		})
	}
}
