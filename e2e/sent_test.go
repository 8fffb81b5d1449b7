package e2e

import (
	"fmt"
	"net/url"
	"testing"

	"weir/internal/testenv"
)

// sentLimits is a filter that puts the limit of a customer into dynamic metadata, as ext_authz or
// ext_proc do. Here the customer names the amount.
const sentLimits = `
- name: envoy.filters.http.lua
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
    default_source_code:
      inline_string: |
        function envoy_on_request(handle)
          local metadata, amount = handle:streamInfo():dynamicMetadata(), tonumber(handle:headers():get("x-amount"))
          metadata:set("model", "tokens", 0)
          if amount then
            metadata:set("plan", "limit", {requests_per_unit = amount, unit = "MONTH"})
          end
        end
`

// ratelimitPerRoute begins a route whose configuration of the filter follows.
const ratelimitPerRoute = `
routes:
  - match: {prefix: /}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute`

const sentRoutes = ratelimitPerRoute + `
        rate_limits:
          - {actions: &tenant [{request_headers: {header_name: x-tenant, descriptor_key: tenant}}], hits_addend: {number: 0}, limit: &plan {dynamic_metadata: {metadata_key: {key: plan, path: [{key: limit}]}}}}
          - {actions: *tenant, hits_addend: {format: "%DYNAMIC_METADATA(model:tokens)%"}, apply_on_stream_done: true, limit: *plan}
          - {actions: &user [{request_headers: {header_name: x-user, descriptor_key: user}}], hits_addend: {number: 0}, limit: *plan}
          - {actions: *user, hits_addend: {format: "%DYNAMIC_METADATA(model:tokens)%"}, apply_on_stream_done: true, limit: *plan}
`

// The amount that a request sends applies to the charge after the response, too, and to all that
// operators see. The use stays when the amount changes, with override in the rule and without.
func TestSentLimits(t *testing.T) {
	t.Parallel()
	const rules = `
domain: api
descriptors:
  - {key: tenant, rate_limit: {unit: month, requests_per_unit: 100, algorithm: calendar}, override: {max_requests_per_unit: 1000}}
  - {key: user, rate_limit: {unit: month, requests_per_unit: 100, algorithm: calendar}}
`
	m := startModel(t)
	for name, memory := range map[string]bool{"memory": true, "redis": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := gateway{filters: sentLimits + tokenFilters, virtualHost: sentRoutes, upstream: m.addr, memory: memory}.start(t, rules, "USE_CALENDAR_MONTH_RATE_LIMIT=true")
			operator := operator{t, t.TempDir(), s.weir.debug}
			for _, key := range []string{"tenant", "user"} {
				// wants waits until operators see that many used units of the amount in force.
				wants := func(used, amount int) {
					t.Helper()
					debug, shown := "http://"+s.weir.debug, fmt.Sprintf(`(?s)%d per month.*%d of %d`, amount, used, amount)
					waitForText(t, debug+"/console/descriptor?"+url.Values{"domain": {"api"}, "descriptor": {key + "=acme"}}.Encode(), shown)
					waitForText(t, debug+"/budgets", fmt.Sprintf(`%s=acme[^{}]*"amount": %d,\s*"used": %d,`, key, amount, used))
					operator.shell("weir peek api "+key+"=acme", shown)
				}
				ask := func(amount string, tokens, status int) {
					t.Helper()
					headers := []string{"x-" + key + ": acme"}
					if amount != "" {
						headers = append(headers, "x-amount: "+amount)
					}
					testenv.Equal(t, s.ask(fmt.Sprintf("/body?tokens=%d", tokens), headers...).status, status, "%s sends %s", key, amount)
				}
				ask("50", 60, 200)
				wants(60, 50)
				ask("50", 1, 429)
				ask("200", 30, 200)
				wants(90, 200)
				ask("80", 1, 429)
				wants(90, 80)
				ask("", 1, 200)
				wants(91, 100)
			}
		})
	}
}
