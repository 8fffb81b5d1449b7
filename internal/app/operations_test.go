package app

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/alicebob/miniredis/v2"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"gopkg.in/yaml.v3"

	"weir/internal/settings"
	"weir/internal/testenv"
)

// operations is the document for operators.
func operations(t *testing.T) string { return document(t, "operations.md") }

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentsListEveryMetric compares the documents with what the server
// shows, with each store and with a control plane.
func TestDocumentsListEveryMetric(t *testing.T) {
	const twoLimits = "domain: api\ndescriptors:\n  - key: user\n    rate_limits:\n" +
		"      - {unit: day, requests_per_unit: 3}\n      - {unit: week, requests_per_unit: 9}\n"
	names, kinds := map[string]bool{}, map[string]bool{}
	plane := testenv.StartControlPlane(t)
	plane.Set("v1", sent("x", 3))
	rules := "--config=" + directory(t, twoLimits)
	for _, args := range [][]string{{rules}, {rules, "--redis-url=" + miniredis.RunT(t).Addr()}, fromControlPlane(plane)} {
		f := start(t, args...)
		f.wantHealth(true, "OK")
		f.wantLimit(3) // metrics by rule appear with the first request
		f.askStranger()
		families, err := f.opts.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			name := family.GetName()
			if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				continue
			}
			names[name] = true
			if name == "weir_redis_errors_total" {
				for _, m := range family.GetMetric() {
					kinds[m.GetLabel()[0].GetValue()] = true
				}
			}
		}
	}
	metrics, _, _ := strings.Cut(document(t, "metrics.md"), "\n## ")
	wantRows(t, metrics, names)
	_, failures, _ := strings.Cut(operations(t), "\n## When Redis fails\n")
	failures, _, _ = strings.Cut(failures, "\n## ")
	wantRows(t, failures, kinds)
}

// askStranger asks for a key of domain api that no rule is for.
func (f *fixture) askStranger() {
	f.t.Helper()
	_, err := ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(f.t.Context(), &ratelimitv3.RateLimitRequest{
		Domain:      "api",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "stranger"}}}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
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

// TestOperationsNameSettingsThatExist parses what the document tells to set.
func TestOperationsNameSettingsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, flag := range kong.Must(&struct{ settings.Settings }{}, kong.NoDefaultHelp()).Model.Flags {
		known[flag.Envs[0]] = true
	}
	_, snippet, _ := strings.Cut(operations(t), "## Kubernetes")
	_, snippet, _ = strings.Cut(snippet, "```yaml\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	var pod struct {
		Containers []struct {
			Env []struct{ Name, Value string }
		}
	}
	if err := yaml.Unmarshal([]byte(snippet), &pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Containers) != 1 || len(pod.Containers[0].Env) == 0 {
		t.Fatalf("the document should set variables of a container, but has %+v", pod)
	}
	for _, env := range pod.Containers[0].Env {
		if !known[env.Name] {
			t.Errorf("%s is no setting", env.Name)
		}
	}
	// In the text, what is spelled like a variable and has one of its prefixes.
	for _, name := range regexp.MustCompile("(?m)(?:`|^)((?:GRPC|DEBUG|REDIS|PROMETHEUS|CACHE|DRAIN|MEMORY|LOG)_[A-Z_]+)[`=]").FindAllStringSubmatch(operations(t), -1) {
		if !known[name[1]] {
			t.Errorf("%s is no setting", name[1])
		}
	}
}
