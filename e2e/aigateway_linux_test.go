package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// aiGatewayEnvironment is the environment of the quota service in the manifest with which Envoy AI
// Gateway tests its QuotaPolicies, except for the address of Redis.
var aiGatewayEnvironment = []string{
	"LOG_LEVEL=debug",
	"REDIS_SOCKET_TYPE=tcp",
	"RUNTIME_ROOT=/data",
	"RUNTIME_SUBDIRECTORY=ratelimit",
	"USE_STATSD=false",
	"CONFIG_TYPE=GRPC_XDS_SOTW",
	"CONFIG_GRPC_XDS_NODE_ID=envoy-ai-gateway-ratelimit",
	"CONFIG_GRPC_XDS_SERVER_URL=ai-gateway-controller.envoy-ai-gateway-system.svc.cluster.local:18002",
	"GRPC_PORT=8081",
}

// quotaRules returns the rules that the controller of Envoy AI Gateway makes of the QuotaPolicy in
// examples/ai-gateway. Its multiple is the factor of all limits.
func quotaRules(t *testing.T, multiple int) string {
	t.Helper()
	type node = map[string]any
	type bucket struct {
		Limit    int
		Duration string
	}
	type header struct{ Name, Type, Value string }
	var policy struct {
		Metadata struct{ Namespace string }
		Spec     struct {
			TargetRefs     []struct{ Name string } `yaml:"targetRefs"`
			PerModelQuotas []struct {
				ModelName string `yaml:"modelName"`
				Quota     struct {
					DefaultBucket bucket `yaml:"defaultBucket"`
					BucketRules   []struct {
						ClientSelectors []struct{ Headers []header } `yaml:"clientSelectors"`
						Quota           bucket
						ShadowMode      bool `yaml:"shadowMode"`
					} `yaml:"bucketRules"`
				}
			} `yaml:"perModelQuotas"`
		}
	}
	parse(t, readDocument(t, "examples/ai-gateway/quota-policy.yaml"), &policy)
	limit := func(d node, b bucket, shadow bool) {
		d["rate_limit"] = node{"requests_per_unit": b.Limit * multiple, "unit": map[string]string{"1h": "HOUR", "1d": "DAY"}[b.Duration]}
		d["quota_mode"] = true
		if shadow {
			d["shadow_mode"] = true
		}
	}
	var backends []node
	for _, target := range policy.Spec.TargetRefs {
		var models []node
		for _, m := range policy.Spec.PerModelQuotas {
			model := node{"key": "model_name_override", "value": m.ModelName}
			models = append(models, model)
			if len(m.Quota.BucketRules) == 0 {
				limit(model, m.Quota.DefaultBucket, false)
				continue
			}
			var rules []node
			for i, rule := range m.Quota.BucketRules {
				var headers []header
				for _, selector := range rule.ClientSelectors {
					headers = append(headers, selector.Headers...)
				}
				slices.SortFunc(headers, func(a, b header) int { return strings.Compare(a.Name, b.Name) })
				var leaf node
				for j, h := range headers {
					key := fmt.Sprintf("rule-%d-%s|%s-match-%d", i, h.Name, h.Value, j)
					next := node{"key": key, "value": key}
					if h.Type == "Distinct" {
						next = node{"key": fmt.Sprintf("rule-%d-%s-match-%d", i, h.Name, j)}
					}
					if j == 0 {
						rules = append(rules, next)
					} else {
						leaf["descriptors"] = []node{next}
					}
					leaf = next
				}
				limit(leaf, rule.Quota, rule.ShadowMode)
			}
			key := fmt.Sprintf("rule-%d-match--1", len(rules))
			rest := node{"key": key, "value": key}
			limit(rest, m.Quota.DefaultBucket, false)
			model["descriptors"] = append(rules, rest)
		}
		backends = append(backends, node{"key": "backend_name", "value": policy.Metadata.Namespace + "/" + target.Name, "descriptors": models})
	}
	return string(testenv.Must(json.Marshal(node{"name": "ai-gateway-quota", "domain": "ai-gateway-quota", "descriptors": backends}))(t))
}

// TestAIGatewayRules holds the file of rules in examples/ai-gateway to what the controller makes.
func TestAIGatewayRules(t *testing.T) {
	t.Parallel()
	var file, made map[string]any
	parse(t, readDocument(t, "examples/ai-gateway/rules/quota.yaml"), &file)
	parse(t, strings.NewReplacer(`"HOUR"`, "hour", `"DAY"`, "day").Replace(quotaRules(t, 1)), &made)
	delete(made, "name")
	testenv.EqualDeep(t, file, made, "quota.yaml")
}

// aiGateway is a pod with the Envoy of examples/ai-gateway and two models, east and west.
type aiGateway struct {
	*pod
	east *process
}

// ask lets a model answer with an amount of tokens, and compares the status. It returns the groups of
// quotas that had room, as Envoy knows them.
func (g aiGateway) ask(status, tokens int, headers ...string) (available string) {
	g.t.Helper()
	for _, streamed := range []bool{false, true} { // half of the tokens each
		body := fmt.Sprintf(`{"max_tokens": %d, "stream": %t}`, tokens/2, streamed)
		a, err := exchange(g.client, http.MethodPost, "http://"+podEnvoy+"/v1/chat/completions", body, headers...)
		if err != nil || a.status != status {
			g.t.Errorf("%d tokens for %q: status %d (error: %v), want %d: %s", tokens, headers, a.status, err, status, a.body)
		}
		available = a.header.Get("x-available")
	}
	return available
}

// left waits until the quota of a backend's model, or of a rule of that model, has an amount left.
// The rule is an alternating list of keys and values.
func (g aiGateway) left(want int, backend, model string, rule ...string) {
	g.t.Helper()
	entries := fmt.Sprintf(`{"key": "backend_name", "value": "default/%s"}, {"key": "model_name_override", "value": %q}`, backend, model)
	for pair := range slices.Chunk(rule, 2) {
		entries += fmt.Sprintf(`, {"key": %q, "value": %q}`, pair[0], pair[1])
	}
	body := `{"domain": "ai-gateway-quota", "descriptors": [{"hitsAddend": "0", "entries": [` + entries + `]}]}`
	testenv.Eventually(g.t, func() error {
		var decided struct {
			Statuses []struct{ LimitRemaining int }
		}
		a, err := exchange(g.client, http.MethodPost, "http://127.0.0.1:8080/json", body)
		err = cmp.Or(err, json.Unmarshal([]byte(a.body), &decided))
		if err == nil && (decided.Statuses[0].LimitRemaining != want || !strings.Contains(a.body, "currentLimit")) {
			err = fmt.Errorf("%s of %s %q: want %d left in %s", model, backend, rule, want, a.body)
		}
		return err
	})
}

func startAIGateway(t *testing.T, redis bool) (g aiGateway, plane *testenv.ControlPlane) {
	g.pod = newPod(t)
	g.client.Transport = &http.Transport{DialContext: g.Dial} // keeps connections, because each makes a thread
	env := slices.Concat(aiGatewayEnvironment, patientWithRedis, []string{"RESPONSE_DYNAMIC_METADATA=true"})
	if redis {
		g.redis()
		env = append(env, "REDIS_URL=redis.redis-system.svc.cluster.local:6379")
	}
	plane = g.ControlPlane("127.0.0.1:18002")
	g.weir(env, "ai-gateway-controller.envoy-ai-gateway-system.svc.cluster.local redis.redis-system.svc.cluster.local", nil,
		"--quotaRateLimitServiceHost=envoy-ai-gateway-ratelimit.envoy-gateway-system")
	program := filepath.Join(t.TempDir(), "model")
	output(t, "go build -o "+program+" ./examples/llm/model")
	for _, addr := range []string{"127.0.0.1:8002", "127.0.0.1:8001"} {
		cmd := exec.Command(program, "-listen", addr)
		g.east = launch(t, cmd, func() error { return g.Start(cmd) })
	}
	var doc map[string]any
	parse(t, readDocument(t, "examples/ai-gateway/envoy.yaml"), &doc)
	manager := connectionManager(t, doc)
	maps.Copy(get(t, manager, "http_filters", 3, "typed_config"), patient)
	host := get(t, manager, "route_config", "virtual_hosts", 0)
	var more []any
	parse(t, `[header: {key: x-available, value: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:quota:available)%"}]`, &more)
	host["response_headers_to_add"] = append(host["response_headers_to_add"].([]any), more...)
	g.envoy(doc)
	g.waitFor(404, "http://"+podEnvoy+"/") // a request without a model
	return g, plane
}

// Weir is the quota service of Envoy AI Gateway, with the environment and arguments of its manifest
// and a control plane like its controller's.
func TestAIGateway(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	const node = "envoy-ai-gateway-ratelimit"
	for name, redis := range map[string]bool{"memory": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, plane := startAIGateway(t, redis)
			testenv.Until(t, "it is connected", func() bool {
				a, err := exchange(g.client, http.MethodGet, "http://127.0.0.1:6070/", "")
				return err == nil && strings.Contains(a.body, "connected, no rules yet")
			})
			plane.SetFor(node, "1", quotaRules(t, 1))
			g.waitFor(200, "http://127.0.0.1:8080/healthcheck")
			awayFromEnd(time.Hour)

			small := "x-ai-eg-model: small"
			g.ask(200, 60, small)
			g.left(1000-2-60, "east", "small")
			g.left(1000-2, "west", "small") // one unit for each request, because west might have answered

			tier := []string{"rule-0-x-tenant|acme-match-0", "rule-0-x-tenant|acme-match-0", "rule-0-x-tier|free|trial-match-1", "rule-0-x-tier|free|trial-match-1"}
			rest := []string{"rule-2-match--1", "rule-2-match--1"}
			acme := []string{"x-ai-eg-model: large", "x-tenant: acme", "x-tier: trial"}
			g.ask(200, 98, acme...)
			g.left(0, "east", "large", tier...)
			g.left(1000-2-98, "east", "large", rest...)
			g.left(0, "east", "large", "rule-1-x-tenant-match-0", "acme") // in shadow mode
			g.left(100-2, "west", "large", tier...)
			testenv.Equal(t, g.ask(200, 0, acme...), `[{"backend_name":"default/west","model_name_override":"large"}]`, "quotas with room")
			g.left(100-4, "west", "large", tier...)

			g.east.kill()
			g.ask(200, 94, acme...) // west answers, and is charged
			g.left(0, "west", "large", tier...)
			g.ask(429, 0, acme...)
			g.left(1000-6-94, "west", "large", rest...) // the model has room, and a denied request is not charged
			g.ask(200, 60, "x-ai-eg-model: large", "x-tenant: globex", "x-tier: trial")
			g.left(0, "west", "large", "rule-1-x-tenant-match-0", "globex")
			g.ask(200, 60, "x-ai-eg-model: large", "x-tenant: globex", "x-tier: trial")

			// Without shadow mode, each tenant has a quota. Each request takes a unit of east's, too.
			plane.SetFor(node, "2", strings.ReplaceAll(quotaRules(t, 1), `"shadow_mode":true`, `"shadow_mode":false`))
			testenv.Until(t, "globex is denied", func() bool {
				a, err := exchange(g.client, http.MethodPost, "http://"+podEnvoy+"/v1/chat/completions", `{}`, "x-ai-eg-model: large", "x-tenant: globex")
				return err == nil && a.status == 429
			})
			g.ask(200, 0, "x-ai-eg-model: large", "x-tenant: initech")

			plane.Stop()
			plane.Start() // its versions begin again
			plane.SetFor(node, "1", quotaRules(t, 2))
			g.left(2000-2, "west", "small")
		})
	}
}
