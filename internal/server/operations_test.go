package server

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/testenv"
)

// operations is the document for operators.
func operations(t *testing.T) string { return document(t, "operations.md") }

func document(t *testing.T, name string) string {
	t.Helper()
	return string(testenv.Must(os.ReadFile("../../docs/" + name))(t))
}

// TestDocumentsListEveryMetric compares the documents with what the server
// shows, with each store, a log of decisions and a control plane.
func TestDocumentsListEveryMetric(t *testing.T) {
	names, labels := map[string]bool{}, map[string]map[string]bool{}
	for name, values := range shownMetrics(t) {
		names[name], labels[name] = true, values
	}
	metrics, _, _ := strings.Cut(document(t, "metrics.md"), "\n## ")
	wantRows(t, metrics, names)
	kinds := map[string]bool{}
	for value := range labels["weir_redis_errors_total"] {
		kind, _ := strings.CutPrefix(value, "kind=")
		kinds[kind] = true
	}
	_, failures, _ := strings.Cut(operations(t), "\n## When Redis fails\n")
	failures, _, _ = strings.Cut(failures, "\n## ")
	wantRows(t, failures, kinds)
}

// shownMetrics are the names of all metrics of the server, with each store, a log of
// decisions and a control plane, and the values of their labels, each label=value.
func shownMetrics(t *testing.T) map[string]map[string]bool {
	t.Helper()
	const twoLimits = "domain: api\ndescriptors:\n  - key: user\n    rate_limit:\n" +
		"      - {unit: day, requests_per_unit: 3}\n      - {unit: week, requests_per_unit: 9}\n"
	shown := map[string]map[string]bool{}
	plane := testenv.StartControlPlane(t)
	plane.Set("v1", sent("x", 3))
	rules := "--config=" + directory(t, twoLimits)
	for _, args := range [][]string{{rules, "--decision-log=denied"}, {rules, "--redis-url=" + miniredis.RunT(t).Addr()}, fromControlPlane(plane)} {
		f := startWithStdout(t, io.Discard, args...)
		f.wantHealth(true, "OK")
		f.wantLimit(3) // metrics by rule appear with the first request
		f.askStranger()
		f.addShown(shown)
	}
	encrypted, _ := startTLS(t)
	encrypted.addShown(shown)
	return shown
}

// addShown adds the names of the server's metrics, and the values of their labels.
func (f *fixture) addShown(shown map[string]map[string]bool) {
	f.t.Helper()
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

// TestDocumentedExpressions holds every metric that a document names, with its labels
// and their values, to what the server shows: in docs/metrics.md and all others, in the
// alerts and in the dashboard.
func TestDocumentedExpressions(t *testing.T) {
	shown := shownMetrics(t)
	metric := regexp.MustCompile(`((?:weir|ratelimit_service)_\w*\w)(?:\{([^}]*)\})?`)
	selector := regexp.MustCompile(`(\w+)(?:=|!=|=~)"([^"]*)"`)
	part := regexp.MustCompile(`_(bucket|sum|count)$`) // of a histogram
	selected := 0
	deploy := filepath.Join(testenv.Repository(t), "deploy")
	for _, document := range append(testenv.Documents(t), filepath.Join(deploy, "prometheus/alerts.yaml"), filepath.Join(deploy, "grafana/weir.json")) {
		text := testenv.Must(os.ReadFile(document))(t)
		for _, found := range metric.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1) {
			name, labels := part.ReplaceAllString(found[1], ""), strings.ReplaceAll(found[2], `\|`, "|") // of a histogram, in a table
			if shown[name] == nil && !strings.HasSuffix(name, "_") {                                     // those that begin so
				t.Errorf("%s: there is no metric %s", document, found[1])
			}
			for _, s := range selector.FindAllStringSubmatch(labels, -1) {
				if label := s[1]; label == "err_type" || label == "mode" || label == "kind" || label == "outcome" { // others are of the rules
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

// askStranger asks for a key of domain api that no rule is for.
func (f *fixture) askStranger() {
	f.t.Helper()
	testenv.Must(f.decide(f.t.Context(), describe("stranger=")))(f.t)
}

// wantRows compares the first column of the tables in text with names.
func wantRows(t *testing.T, text string, names map[string]bool) {
	t.Helper()
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| ?`(\\w+)` ?\\|").FindAllStringSubmatch(text, -1) {
		listed[row[1]] = true
	}
	if !maps.Equal(listed, names) {
		t.Errorf("the document lists %v, want %v", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(names)))
	}
}
