// Package alerts checks the alerts and the dashboard against the metrics of running
// servers, with Prometheus' own parser and query engine. It is in a separate module, so
// that the server does not have these dependencies.
package alerts

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"weir/internal/testenv"
)

// alert is a rule of alerts.yaml.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// readAlerts reads alerts.yaml, whose syntax promtool checks.
func readAlerts(t *testing.T) map[string]alert {
	t.Helper()
	text := testenv.Must(os.ReadFile("../../prometheus/alerts.yaml"))(t)
	var file struct{ Groups []struct{ Rules []alert } }
	testenv.OK(t, yaml.Unmarshal(text, &file))
	alerts := map[string]alert{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if _, twice := alerts[rule.Alert]; twice {
				t.Errorf("there are two alerts %s", rule.Alert)
			}
			alerts[rule.Alert] = rule
		}
	}
	if len(alerts) < 20 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
	return alerts
}

// Every alert names its severity, the problem, and the section of a document with the
// instructions. In alerts_test.yaml, which promtool runs, it fires at some time, and there
// is a time at which no alert fires.
func TestAlerts(t *testing.T) {
	document := testenv.Must(os.ReadFile("../../../docs/at-3am.md"))(t)
	sections, fires := map[string]bool{}, map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(document), -1) {
		sections["YOUR-DOCS-URL/at-3am.md#"+strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	var file struct {
		Tests []struct {
			Checks []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	testenv.OK(t, yaml.Unmarshal(testenv.Must(os.ReadFile("../../prometheus/alerts_test.yaml"))(t), &file))
	for i, test := range file.Tests {
		silent := false
		for _, check := range test.Checks {
			silent = silent || len(check.Samples) == 0
			for _, sample := range check.Samples {
				fires[sample.Labels] = true
			}
		}
		if !silent {
			t.Errorf("test %d has no time at which no alert fires", i)
		}
	}
	for name, rule := range readAlerts(t) {
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", name, severity)
		}
		for _, field := range []string{"summary", "description"} {
			if !strings.HasSuffix(rule.Annotations[field], ".") {
				t.Errorf("%s: the %s %q is no sentence", name, field, rule.Annotations[field])
			}
		}
		if !sections[rule.Annotations["runbook_url"]] {
			t.Errorf("%s: there is no %s", name, rule.Annotations["runbook_url"])
		}
		if !fires[`{alertname="`+name+`"}`] {
			t.Errorf("%s never fires", name)
		}
	}
}

const rules = `domain: api
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 7, notify: [80, 100]}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`

// sentRules are the same rules for a control plane.
const sentRules = `{"name": "api", "domain": "api", "descriptors": [
	{"key": "user", "rate_limit": {"unit": "DAY", "requests_per_unit": 7}},
	{"key": "tried", "shadow_mode": true, "rate_limit": {"unit": "DAY", "requests_per_unit": 1}}]}`

// servers are the servers whose metrics are read: a server with Redis, and a server with
// counters in memory, TLS, and rules from a control plane.
type servers struct {
	all          []*weir
	redis, plane interface{ Stop() }
	rules        string // file
}

func startServers(t *testing.T) *servers {
	t.Helper()
	program, dir := buildWeir(t), t.TempDir()
	redis, plane := testenv.RedisServer(t), testenv.StartControlPlane(t)
	plane.Set("v1", sentRules)
	certificate, key := testenv.NewAuthority(t).Issue(t, "localhost")
	testenv.Write(t, filepath.Join(dir, "tls.crt"), string(certificate))
	testenv.Write(t, filepath.Join(dir, "tls.key"), string(key))
	file := filepath.Join(dir, "rules", "api.yaml")
	testenv.Write(t, file, rules)
	return &servers{redis: redis, plane: plane, rules: file, all: []*weir{
		startWeir(t, program, "REDIS_URL="+redis.Addr(), "CONFIG_PATH="+filepath.Dir(file), "DECISION_LOG=denied", "EVENTS_URL=http://"+testenv.OwnAddr(t)),
		startWeir(t, program, "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Addr,
			"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+filepath.Join(dir, "tls.crt"), "GRPC_SERVER_TLS_KEY="+filepath.Join(dir, "tls.key")),
	}}
}

// Every query of the dashboard and every condition of an alert has a result with servers
// under traffic. Real failures fire their alerts.
func TestQueriesHaveAnswers(t *testing.T) {
	s, h, d, begin := startServers(t), newHistory(t), readDashboard(t), time.Now()
	now := begin.Add(working)
	s.scrape(h, begin, now)
	var values map[string]string
	t.Run("dashboard", func(t *testing.T) { values = checkDashboard(t, h, d, now) })
	t.Run("alerts", func(t *testing.T) {
		for name, rule := range readAlerts(t) {
			if err := h.checkCondition(rule.Expr, now); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("failures", func(t *testing.T) { checkFailures(t, s, h, now) })
	t.Run("picture", func(t *testing.T) { checkPicture(t, h, d, values, now.Add(failing)) })
}

// scrape reads the metrics of the servers under traffic, for every half minute of a span
// of time. It takes less time than that span.
func (s *servers) scrape(h *history, from, until time.Time) {
	for minute := 0; !from.After(until); from = from.Add(time.Minute / 2) {
		for i, w := range s.all {
			w.traffic(3 + i + int(3*math.Sin(float64(minute)/8)))
			h.scrape(w.metrics, fmt.Sprintf("10.0.0.%d:9090", i+1), from)
		}
		minute++
	}
}

// Everything works for the time working, and then fails for the time failing.
const working, failing = 40 * time.Minute, 5 * time.Minute

// checkFailures makes everything fail, and checks that alerts fire.
func checkFailures(t *testing.T, s *servers, h *history, now time.Time) {
	withRedis, withPlane := s.all[0], s.all[1]
	s.redis.Stop()
	s.plane.Stop()
	testenv.Write(t, s.rules, "domain: [")
	withRedis.waitFor(`weir_redis_breaker_open{redis="main"} 1`)
	withRedis.waitFor("weir_config_last_reload_successful 0")
	withPlane.waitFor("weir_xds_connected 0")
	s.scrape(h, now.Add(time.Minute/2), now.Add(failing))
	alerts := readAlerts(t)
	for _, name := range []string{
		"WeirRequestsUndecided", "WeirRedisBreakerOpen", "WeirRulesRefused", "WeirControlPlaneAway", "WeirUnknownDomain",
	} {
		if err := h.check(alerts[name].Expr, now.Add(failing)); err != nil {
			t.Errorf("%s does not fire: %v", name, err)
		}
	}
}
