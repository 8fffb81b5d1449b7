package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/testenv"
)

func document(t *testing.T, name string) string {
	t.Helper()
	return string(testenv.Must(os.ReadFile("../../docs/" + name))(t))
}

// shownMetrics returns the names of all metrics of servers with each store, a decision log and a
// control plane. Each name has the values of its labels, as label=value.
func shownMetrics(t *testing.T) map[string]map[string]bool {
	t.Helper()
	const twoLimits = "domain: api\ndescriptors:\n  - key: user\n    rate_limit:\n" +
		"      - {unit: day, requests_per_unit: 3, notify: [80, 100]}\n      - {unit: week, requests_per_unit: 9}\n" +
		"  - {key: tenant, quota_service: true, rate_limit: {unit: second, requests_per_unit: 3}}\n"
	shown := map[string]map[string]bool{}
	plane := testenv.StartControlPlane(t)
	plane.Set("v1", sent("x", 3))
	rules := "--config=" + directory(t, twoLimits)
	for _, args := range [][]string{{rules, "--decision-log=denied", "--events-url=http://" + testenv.OwnAddr(t)}, {rules, "--redis-url=" + miniredis.RunT(t).Addr()}, fromControlPlane(plane)} {
		f := startWithStdout(t, io.Discard, args...)
		f.wantHealth(true, "OK")
		f.wantLimit(3)                                                // metrics by rule appear with the first request
		testenv.Must(f.decide(t.Context(), describe("stranger=")))(t) // no rule matches
		f.addShown(shown)
	}
	encrypted, _ := startTLS(t)
	encrypted.addShown(shown)
	return shown
}

// addShown adds the names of the server's metrics and the values of their labels to shown. It also
// runs promlint, to which only names of the reference are an exception.
func (f *fixture) addShown(shown map[string]map[string]bool) {
	f.t.Helper()
	for _, p := range testenv.Must(testutil.GatherAndLint(f.opts.Registry))(f.t) {
		if p.Text != `counter metrics should have "_total" suffix` || !strings.HasPrefix(p.Metric, "ratelimit_service_") {
			f.t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	families := testenv.Must(f.opts.Registry.Gather())(f.t)
	for _, family := range families {
		name := family.GetName()
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		if shown[name] == nil {
			shown[name] = map[string]bool{}
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				shown[name][label.GetName()+"="+label.GetValue()] = true
			}
		}
	}
}

// TestDocumentedExpressions checks that the server shows every metric, label and value that the
// documents, the alerts or the dashboard name, and that docs/metrics.md lists all metrics.
func TestDocumentedExpressions(t *testing.T) {
	shown := shownMetrics(t)
	metrics, _, _ := strings.Cut(document(t, "metrics.md"), "\n## ")
	wantRows(t, metrics, slices.Sorted(maps.Keys(shown)))
	var kinds []string
	for value := range shown["weir_redis_errors_total"] {
		if kind, ok := strings.CutPrefix(value, "kind="); ok {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	_, failures, _ := strings.Cut(document(t, "at-3am.md"), "\n## Redis fails\n")
	failures, _, _ = strings.Cut(failures, "\n## ")
	wantRows(t, failures, kinds)

	metric := regexp.MustCompile(`((?:weir|ratelimit_service)_\w*\w)(?:\{([^}]*)\})?`)
	selector := regexp.MustCompile(`(\w+)(?:=|!=|=~)"([^"]*)"`)
	part := regexp.MustCompile(`_(bucket|sum|count)$`) // of a histogram
	selected := 0
	deploy := filepath.Join(testenv.Repository(t), "deploy")
	for _, document := range append(testenv.Documents(t), filepath.Join(deploy, "prometheus/alerts.yaml"), filepath.Join(deploy, "grafana/weir.json")) {
		text := testenv.Must(os.ReadFile(document))(t)
		for _, found := range metric.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1) {
			name, labels := part.ReplaceAllString(found[1], ""), strings.ReplaceAll(found[2], `\|`, "|") // in a table
			if shown[name] == nil && !strings.HasSuffix(name, "_") {                                     // a trailing _ is a prefix, such as weir_redis_*
				t.Errorf("%s: there is no metric %s", document, found[1])
			}
			for _, s := range selector.FindAllStringSubmatch(labels, -1) {
				if label := s[1]; label == "err_type" || label == "mode" || label == "kind" || label == "outcome" { // values of other labels come from rules
					selected++
					for value := range strings.SplitSeq(s[2], "|") {
						if !shown[name][label+"="+value] {
							t.Errorf("%s: %s has no %s=%q", document, name, label, value)
						}
					}
				}
			}
		}
	}
	if selected < 8 {
		t.Errorf("only %d labels were compared", selected)
	}
}

// wantRows compares the first column of the tables in text with sorted names.
func wantRows(t *testing.T, text string, names []string) {
	t.Helper()
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| ?`(\\w+)` ?\\|").FindAllStringSubmatch(text, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	if listed = slices.Compact(listed); !slices.Equal(listed, names) {
		t.Errorf("the document lists %v, want %v", listed, names)
	}
}

// startTLS runs a server whose gRPC listener has a certificate, which it returns.
func startTLS(t *testing.T) (f *fixture, certificate *x509.Certificate) {
	t.Helper()
	cert, key := issue(t, testenv.NewAuthority(t), "localhost")
	pair := testenv.Must(tls.LoadX509KeyPair(cert, key))(t)
	return start(t, "--config="+directory(t, limited(3)), "--grpc-server-use-tls", "--grpc-server-tls-cert="+cert, "--grpc-server-tls-key="+key), pair.Leaf
}

func TestCertificateTimes(t *testing.T) {
	f, certificate := startTLS(t)
	for name, want := range map[string]time.Time{"not_before": certificate.NotBefore, "not_after": certificate.NotAfter} {
		f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200,
			fmt.Sprintf(`weir_tls_certificate_%s_timestamp_seconds{connection="grpc"} %v`, name, float64(want.Unix())))
	}
}
