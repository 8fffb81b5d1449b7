package rls

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// wantSeries compares the series of reg with want. It ignores metrics that are not in want.
func wantSeries(t *testing.T, reg prometheus.Gatherer, want string) {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	name := func(line string) string { return line[:strings.IndexAny(line, "{ ")] }
	wanted := strings.Split(strings.TrimSpace(want), "\n")
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(w.Body.String()), "\n") {
		if strings.HasPrefix(line, "weir_limit_hits_total") && strings.HasSuffix(line, " 0") {
			continue // every limit has a series for each outcome
		}
		if slices.ContainsFunc(wanted, func(other string) bool { return name(other) == name(line) }) {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
}

func TestMetricsOfLimits(t *testing.T) {
	for _, tc := range []struct {
		name, rules string
		requests    []string // requests for domain api unless they have another
		want        string
	}{
		{"the names of the reference tell of a rule, ours of each of its limits", `
domain: api
descriptors:
  - key: user
    value: a|b
    descriptors:
      - key: path
        rate_limit:
          - {name: burst, unit: second, requests_per_unit: 3}
          - {unit: minute, requests_per_unit: 100, algorithm: token_bucket}
          - {unit: minute, requests_per_unit: 2, algorithm: sliding_window, shadow_mode: true}
  - key: alone
    rate_limit: {unit: second, requests_per_unit: 1}
`, []string{
			"user=a|b;path=/ alone=x +2", // denied by alone
			"user=a|b;path=/ +2",
			"user=a|b;path=/ +2", // denied by burst
			"user=a|b;path=/(2)", // the same, but charged
			"user=a|b;path=/(0)", // asks for nothing
		}, `
ratelimit_service_rate_limit_total_hits{domain="api",key1="alone",key2=""} 2
ratelimit_service_rate_limit_total_hits{domain="api",key1="user_a_b",key2="path"} 24
weir_limit_hits_total{domain="api",limit="second",outcome="over",rule="alone"} 2
weir_limit_hits_total{domain="api",limit="burst",outcome="admitted",rule="user=\"a|b\"|path"} 3
weir_limit_hits_total{domain="api",limit="burst",outcome="over",rule="user=\"a|b\"|path"} 3
weir_limit_hits_total{domain="api",limit="burst",outcome="withheld",rule="user=\"a|b\"|path"} 2
weir_limit_hits_total{domain="api",limit="minute sliding_window",outcome="admitted",rule="user=\"a|b\"|path"} 2
weir_limit_hits_total{domain="api",limit="minute sliding_window",outcome="over",rule="user=\"a|b\"|path"} 4
weir_limit_hits_total{domain="api",limit="minute sliding_window",outcome="withheld",rule="user=\"a|b\"|path"} 2
weir_limit_hits_total{domain="api",limit="minute token_bucket",outcome="admitted",rule="user=\"a|b\"|path"} 4
weir_limit_hits_total{domain="api",limit="minute token_bucket",outcome="withheld",rule="user=\"a|b\"|path"} 4
`},
		{"a limit at the third level has a series of its own", `
domain: api
descriptors:
  - key: tenant
    descriptors:
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 100}
        descriptors:
          - key: method
            value: POST
            rate_limit: {name: writes, unit: minute, requests_per_unit: 1}
`, slices.Repeat([]string{"tenant=a;path=/;method=POST", "tenant=a;path=/"}, 3), `
ratelimit_service_rate_limit_over_limit{domain="api",key1="tenant",key2="path"} 2
ratelimit_service_rate_limit_total_hits{domain="api",key1="tenant",key2="path"} 6
weir_limit_hits_total{domain="api",limit="minute",outcome="admitted",rule="tenant|path"} 3
weir_limit_hits_total{domain="api",limit="writes",outcome="admitted",rule="tenant|path|method=POST"} 1
weir_limit_hits_total{domain="api",limit="writes",outcome="over",rule="tenant|path|method=POST"} 2
`},
		{"overrides of a domain are where its rules are", `{domain: api, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 9}}]}`, []string{
			"user=x user=x(9/DAY) user=x(8/HOUR)",
		}, `
ratelimit_service_rate_limit_total_hits{domain="api",key1="override",key2=""} 2
ratelimit_service_rate_limit_total_hits{domain="api",key1="user",key2=""} 1
weir_limit_hits_total{domain="api",limit="day",outcome="admitted",rule="user"} 1
weir_limit_hits_total{domain="api",limit="override",outcome="admitted",rule="override"} 2
`},
		{"what no rule is for", `{domain: api, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 9}}, {key: free}]}`, []string{
			"user=a", "free=a", "typo=a(1/MINUTE)", // all match a rule or have an override
			"user=a typo=a",
			"typo=a typo=a",
			"domain:typo user=a user=b",
			"domain:typo user=a(1/MINUTE)",
		}, `
weir_unmatched_descriptors_total{domain="api"} 3
weir_unknown_domain_requests_total 2
`},
		{"whatever values a hit is counted under, its limit says what became of it", `{domain: api, descriptors: [{key: user, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}]}`, []string{
			"user=alice +4", "user=bob +4", "user=bob +12",
		}, `
ratelimit_service_rate_limit_total_hits{domain="api",key1="user_alice",key2=""} 4
ratelimit_service_rate_limit_total_hits{domain="api",key1="user_bob",key2=""} 16
weir_limit_hits_total{domain="api",limit="day",outcome="admitted",rule="user"} 8
weir_limit_hits_total{domain="api",limit="day",outcome="over",rule="user"} 12
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := options(t, strings.ReplaceAll(tc.rules, "domain: api", "domain: 'a:b|c'"))
			s := opts.service()
			for _, request := range tc.requests {
				decide(t, s, "domain:a:b|c "+request)
			}
			wantSeries(t, opts.registry, strings.ReplaceAll(tc.want, `"api"`, `"a_b_c"`))
		})
	}
}

// A request for a rule with quota_service is logged once a minute, since the quota service alone applies it.
func TestLogOfQuotaService(t *testing.T) {
	var log bytes.Buffer
	m := newMetrics(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
	tree := load(t, "{domain: api, descriptors: [{key: tenant, quota_service: true, rate_limit: {unit: second, requests_per_unit: 1}}]}")
	for _, key := range []string{"user", "tenant", "tenant"} {
		m.noteUnmatched(tree, &plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: []limiter.Entry{{Key: key}}}}}, 1)
	}
	if got := log.String(); strings.Count(got, "quota_service") != 1 || !strings.Contains(got, "rule=api|tenant location=") {
		t.Errorf("the log has %s", got)
	}
}

func TestLogOfUnknownDomains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m, tree := newMetrics(prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil))), load(t, hotRules)
		note := func(domain string, lines int, last string) {
			t.Helper()
			m.noteUnmatched(tree, &plan.Request{Domain: domain}, 1)
			got := log.String()
			if strings.Count(got, "admitted a request for a domain without rules") != lines || !strings.HasSuffix(got, last+" there_are=[api]\n") {
				t.Errorf("want %d lines, the last of %s, got\n%s", lines, last, got)
			}
		}
		note("typo", 1, "domain=typo")
		note("typo", 1, "domain=typo")
		note("api", 1, "domain=typo")
		time.Sleep(logEvery - 1)
		note("typo", 1, "domain=typo")
		time.Sleep(time.Nanosecond)
		note(strings.Repeat("x", 1000), 2, "domain="+strings.Repeat("x", maxDomain))
	})
}
