package manifests

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"weir/internal/testenv"
)

const chart = "../../../deploy/chart"

// valueSet has values for the chart. It lists the kinds of the rendered objects, besides a
// Deployment and a Service, and some of the text.
type valueSet struct {
	name, values string
	kinds, text  []string
}

var valueSets = []valueSet{
	{"defaults", "", []string{"PodDisruptionBudget", "ServiceAccount"}, []string{"  replicas: 2\n", "clusterIP: None"}},
	{"everything", everything, []string{
		"ConfigMap", "ConfigMap", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "ServiceAccount", "ServiceMonitor",
	}, []string{"minReplicas: 3\n", "maxReplicas: 20\n", "averageUtilization: 60}", "maxSkew: 2\n", "appProtocol: tls}", `grafana_dashboard: "1"`, "runbook_url: https://example.com/at-3am#redis-fails"}},
	{"nothing that can be left out", `
podDisruptionBudget: {enabled: false}
topologySpread: {enabled: false}
serviceAccount: {create: false}
service: {headless: false}
resources: null
replicas: 1000000
podAnnotations: null
env: {OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", GOMAXPROCS: 1, DRAIN_DELAY: "", DRAIN_TIMEOUT: 19.5s}
`, nil, []string{"  replicas: 1000000\n"}},
	{"ConfigMap, Secrets and a digest that are there", `
rules: {existingConfigMap: rules}
redis: {urlSecret: {name: redis}, authSecret: {name: "123"}}
serviceAccount: {create: false, name: weir}
podDisruptionBudget: {maxUnavailable: 25%}
tls: {secretName: tls}
image: {repository: example.com/weir, tag: v1, digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}
`, []string{"PodDisruptionBudget"}, []string{
		"maxUnavailable: 25%\n", `{name: "REDIS_URL_FILE", value: "/redis-url/url"}`, "secretName: redis\n",
		`{name: "REDIS_AUTH_FILE", value: "/redis-auth/password"}`, "secretName: \"123\"\n", "configMap:\n            name: rules\n", "secretName: tls\n",
		`image: "example.com/weir@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`, `app.kubernetes.io/version: "v1"`,
	}},
	{"Redis by extraEnv", `
redis: {type: CLUSTER, tls: {enabled: true}}
extraEnv: [{name: REDIS_URL, valueFrom: {secretKeyRef: {name: redis, key: url}}}, {name: DRAIN_DELAY, valueFrom: {configMapKeyRef: {name: a, key: b}}}]
resources: {requests: {cpu: 0.5}, limits: {memory: 1.5Gi, example.com/gpu: 1}}
image: {tag: "_a."}
`, []string{"PodDisruptionBudget", "ServiceAccount"}, []string{`app.kubernetes.io/version: "a"`}},
	{"quota service of AI Gateway", "aiGateway: {enabled: true}", []string{"PodDisruptionBudget", "ServiceAccount"}, []string{
		"  replicas: 1\n", "kind: Service\nmetadata:\n  name: \"envoy-ai-gateway-ratelimit\"\n", "name: grpc, port: 8081,", `{name: "CONFIG_TYPE", value: "GRPC_XDS_SOTW"}`,
		`{name: "CONFIG_GRPC_XDS_NODE_ID", value: "envoy-ai-gateway-ratelimit"}`, `{name: "CONFIG_GRPC_XDS_SERVER_URL", value: "ai-gateway-controller.envoy-ai-gateway-system:18002"}`,
	}},
	{"quota service with Redis", "aiGateway: {enabled: true, controller: 'c:1'}\nfullnameOverride: quotas\nredis: {url: 'redis:6379'}\nenv: {QUOTA_GROUP_KEYS: none}", []string{"PodDisruptionBudget", "ServiceAccount"}, []string{
		"  replicas: 2\n", `name: "quotas"`, `{name: "CONFIG_GRPC_XDS_SERVER_URL", value: "c:1"}`, `{name: "QUOTA_GROUP_KEYS", value: "none"}`,
	}},
	{"text that YAML could misread", `
nameOverride: "1"
image: {tag: "1.20", pullSecrets: ["1"]}
env: {EXTRA_TAGS: "on", SHADOW_MODE: true, NEAR_LIMIT_RATIO: "0.5", LOCAL_CACHE_SIZE_IN_BYTES: 20000000}
rules: {files: {2.yaml: {domain: a, descriptors: [{key: a, value: "01234", rate_limit: {unit: day, requests_per_unit: 1125899906842624}}]}, 1.yaml: "   # indented\ndomain: '1'\ndescriptors: []\n"}}
`, []string{"ConfigMap", "PodDisruptionBudget", "ServiceAccount"}, []string{
		`{name: "LOCAL_CACHE_SIZE_IN_BYTES", value: "20000000"}`, `{name: "EXTRA_TAGS", value: "on"}`, "|2\n       # indented\n    domain: '1'\n",
		`value: "01234"`, "requests_per_unit: 1125899906842624\n",
	}},
}

// everything has values that use all features of the chart.
//
//go:embed testdata/everything.yaml
var everything string

// findHelm returns the path of helm. The first call builds it.
var findHelm = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm returns a command of this module's helm, with its files in a directory of the test.
func helm(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program := testenv.Must(findHelm())(t)
	cmd := exec.Command(program, args...)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	return cmd
}

// order describes a release to install.
type order struct {
	name, values string
	sets         []string // arguments of --set
	skipSchema   bool
}

// install returns the release that `helm install --dry-run=client` makes of an order, or its
// error.
func (o order) install() (*release.Release, error) {
	values := map[string]any{}
	err := yaml.Unmarshal([]byte(o.values), &values)
	for _, set := range o.sets {
		err = errors.Join(err, strvals.ParseInto(set, values))
	}
	if err != nil {
		return nil, err
	}
	slog.SetLogLoggerLevel(slog.LevelWarn) // the loader logs each link
	loaded, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	client := action.NewInstall(action.NewConfiguration())
	client.DryRunStrategy, client.Namespace = action.DryRunClient, "gateway"
	client.ReleaseName, client.SkipSchemaValidation = o.name, o.skipSchema
	client.KubeVersion = &common.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"} // the build of helm sets it
	installed, err := client.Run(loaded, values)
	if err != nil {
		return nil, err
	}
	return installed.(*release.Release), nil
}

// render returns the manifests of the chart with values.
func render(values string) (manifests string, err error) {
	installed, err := order{name: "edge", values: values}.install()
	if err != nil {
		return "", err
	}
	return installed.Manifest, nil
}

// documented returns the values in comments of values.yaml and in README.md.
func documented(t *testing.T) (sets []valueSet) {
	t.Helper()
	text := testenv.Read(t, filepath.Join(chart, "values.yaml"))
	for _, comment := range regexp.MustCompile(`(?m)^# Example (.*):\n((?:# {3}.*\n)+)`).FindAllStringSubmatch(text, -1) {
		sets = append(sets, valueSet{name: comment[1], values: strings.ReplaceAll(comment[2], "#   ", ""), kinds: []string{"PodDisruptionBudget", "ServiceAccount"}})
	}
	_, rest, _ := strings.Cut(testenv.Read(t, filepath.Join(chart, "README.md")), "```yaml\n")
	values, _, _ := strings.Cut(rest, "```")
	sets = append(sets, valueSet{name: "README", values: values, kinds: []string{"ConfigMap", "PodDisruptionBudget", "ServiceAccount"}})
	if len(sets) != 3 {
		t.Fatalf("there are %d documented sets of values", len(sets))
	}
	sets[0].text = []string{`{name: "REDIS_SENTINEL_AUTH_FILE", value: "/sentinel/password"}`, "mountPath: /sentinel\n", "secretName: redis-sentinel\n"}
	sets[1].text = []string{`{name: "REDIS_AUTH_FILE", value: "/token/token"}`, "restartPolicy: Always\n", "emptyDir:\n            medium: Memory\n"}
	sets[2].text = []string{`image: "registry.example.com/weir:v1.0.0"`, `value: "redis:6379"`, "requests_per_unit: 5"}
	return sets
}

// TestChart renders the chart, and checks the manifests against the schemas of Kubernetes,
// each other, Pod Security and the requirements of Istio.
func TestChart(t *testing.T) {
	evaluator := testenv.Must(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	for _, test := range append(valueSets, documented(t)...) {
		t.Run(test.name, func(t *testing.T) {
			lint := helm(t, "lint", "--strict", chart, "--values", "-")
			lint.Stdin = strings.NewReader(test.values)
			if out, err := lint.CombinedOutput(); err != nil {
				t.Errorf("helm lint: %v\n%s", err, out)
			}
			manifests := testenv.Must(render(test.values))(t)
			testenv.Contains(t, manifests, test.text...)
			rendered := decodeAll(t, manifests)
			var kinds []string
			for _, object := range rendered {
				if kind := reflect.TypeOf(object).Elem().Name(); kind != "Deployment" && kind != "Service" {
					kinds = append(kinds, kind)
				}
			}
			slices.Sort(kinds)
			testenv.EqualLists(t, kinds, test.kinds, "kinds")
			deployments, services := all[*appsv1.Deployment](rendered), all[*corev1.Service](rendered)
			if len(deployments) != 1 || len(services) != 1 {
				t.Fatalf("%d Deployments and %d Services, want 1 of each", len(deployments), len(services))
			}
			rendered.check(t, "rules")
			checkPod(t, evaluator, deployments[0])
			checkPorts(t, services[0])
			if test.values == everything {
				checkEverything(t, deployments[0], all[*corev1.ConfigMap](rendered))
			}
		})
	}
}

// checkPod checks that the pods of a Deployment follow the profile restricted and, which
// the profile does not require, have a read-only file system.
func checkPod(t *testing.T, evaluator policy.Evaluator, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			t.Errorf("Pod Security: %s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if root := c.SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
			t.Errorf("container %s can write to its root", c.Name)
		}
	}
	if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
		t.Error("the pods have a token of their ServiceAccount")
	}
}

// checkPorts checks that Istio knows the protocol of each port of a Service, from
// appProtocol or from the prefix of its name.
func checkPorts(t *testing.T, s *corev1.Service) {
	t.Helper()
	name := regexp.MustCompile(`^(grpc|http|http2|tls)(-|$)`)
	for _, port := range s.Spec.Ports {
		if !name.MatchString(port.Name) {
			t.Errorf("port %s is named after no protocol", port.Name)
		}
		if port.AppProtocol == nil || !slices.Contains([]string{"http", "kubernetes.io/h2c", "tls"}, *port.AppProtocol) {
			t.Errorf("port %s has no appProtocol that Istio knows", port.Name)
		}
	}
}

// checkEverything checks that the values in everything reach Weir's container.
func checkEverything(t *testing.T, d *appsv1.Deployment, configs []*corev1.ConfigMap) {
	t.Helper()
	settings := testenv.Read(t, "../../../docs/settings.md")
	got := map[string]string{}
	for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
		got[variable.Name] = variable.Value
		own := "`" + strings.TrimSuffix(variable.Name, "_FILE") + "`" // settings.md does not list the variants with _FILE separately
		if !strings.Contains(settings, own) && !strings.Contains(settings, "`"+variable.Name+"`") {
			t.Errorf("docs/settings.md has no %s", variable.Name)
		}
	}
	for name, want := range map[string]string{
		"REDIS_URL": "a:1,b:2", "REDIS_TYPE": "CLUSTER", "REDIS_TLS": "true", "REDIS_TLS_CACERT": "/redis-tls/ca.crt", "REDIS_AUTH_FILE": "/redis-auth/password",
		"FAILURE_MODE": "local", "CONFIG_PATH": "/rules", "DEBUG_HOST": "0.0.0.0", "ADMIN_TOKEN_FILE": "/admin-token/admin",
		"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "/tls/tls.crt", "GRPC_SERVER_TLS_KEY": "/tls/tls.key",
		"GRPC_CLIENT_TLS_CACERT": "/tls/ca.crt", "GRPC_CLIENT_TLS_SAN": "spiffe://mesh/ns/gateway/sa/envoy",
		"LOG_LEVEL": "debug", "LOG_FORMAT": "json", "TRACING_ENABLED": "",
	} {
		if value, is := got[name]; !is || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	dir := t.TempDir()
	for _, config := range configs {
		for name, rules := range config.Data {
			if config.Name == "edge-limits-rules" {
				testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(rules), 0o600))
			}
		}
	}
	validate := exec.Command("go", "run", "./cmd/server", "validate", dir)
	validate.Dir = "../../.."
	if out, err := validate.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "valid: files=2 ") {
		t.Errorf("weir validate: %v\n%s", err, out)
	}
}

// TestChartInstalls installs the chart with values that name its Service, that open ports to
// named clients, or that cause a warning in the notes. A missing or empty list of clients
// would admit everyone.
func TestChartInstalls(t *testing.T) {
	const (
		noRules  = "serves the examples in its image"
		noRedis  = "there is no Redis"
		readable = " holds a password or token. All who may read the Deployment can read it. Use "
		gateways = "networkPolicy.clients admits only "
	)
	for _, test := range []struct {
		release, values string
		service         string   // name of the Service
		ports           []string // open ports of the NetworkPolicy; the schema refuses some of these values
		notes, absent   []string // texts that the output of `helm install` has, and does not have
		wrong           string   // error
	}{
		{release: "my.edge", service: "my-edge-weir"},
		{release: "a.weir", service: "a-weir"},
		{values: "nameOverride: a.b", service: "edge-a-b"},
		{values: "fullnameOverride: limits", service: "limits"},
		{values: "nameOverride: " + strings.Repeat("a", 57) + "--b", service: "edge-" + strings.Repeat("a", 57)},
		{release: "1edge", wrong: "1edge-weir is no name of a Service, which starts with a letter, set fullnameOverride"},
		{release: "1edge", values: "fullnameOverride: edge", service: "edge"},
		{values: "networkPolicy: {enabled: true, clients: null}", ports: []string{"http-metrics"}},
		{values: "networkPolicy: {enabled: true, clients: []}", ports: []string{"http-metrics"}},
		{values: "networkPolicy: {enabled: true, prometheus: null}", ports: []string{"grpc", "http"}},
		{values: "networkPolicy: {enabled: true, operators: null}\ndebug: {service: true}\nadminToken: {secretName: a}", ports: []string{"grpc", "http", "http-metrics"}},
		{values: "networkPolicy: {enabled: true, clients: null, prometheus: null}", ports: []string{}},
		{service: "edge-weir", notes: []string{noRules, noRedis}, absent: []string{readable, gateways}},
		{values: "env: {CONFIG_TYPE: GRPC_XDS_SOTW, REDIS_URL: 'redis:6379'}", absent: []string{noRules, noRedis, readable}},
		{values: "extraEnv: [{name: REDIS_URL, valueFrom: {}}, {name: CONFIG_TYPE, value: grpc_xds_sotw}]", absent: []string{noRules, noRedis, readable}},
		{values: "env: {CONFIG_PATH: /config/mine, REDIS_URL_FILE: /redis}", absent: []string{noRules, noRedis, readable}},
		{values: "env: {CONFIG_TYPE: FILE, RUNTIME_ROOT: /config}", notes: []string{noRedis}, absent: []string{noRules}},
		{values: "rules: {existingConfigMap: a}\nredis: {urlSecret: {name: a}}", absent: []string{noRules, noRedis, readable}},
		{values: "redis: {url: 'redis://u@h:1', authSecret: {name: a}}", absent: []string{readable}},
		{values: "redis: {url: 'redis://u:pw@h:1'}", notes: []string{"redis.url" + readable + "redis.urlSecret instead.", noRules}, absent: []string{noRedis, "u:pw"}},
		{values: "redis: {url: 'redis://h:1?password=pw'}", notes: []string{"redis.url" + readable}, absent: []string{"=pw"}},
		{values: "env: {REDIS_URL: 'redis://u:pw@h:1'}", notes: []string{"env.REDIS_URL" + readable + "redis.urlSecret instead."}},
		{values: "redis: {url: 'h:1'}\nenv: {REDIS_AUTH: pw}", notes: []string{"env.REDIS_AUTH" + readable + "redis.authSecret instead."}},
		{values: "redis: {url: 'h:1'}\nextraEnv: [{name: REDIS_AUTH, value: pw}]", notes: []string{"REDIS_AUTH in extraEnv" + readable + "redis.authSecret instead."}},
		{values: "redis: {url: 'h:1'}\nextraEnv: [{name: REDIS_AUTH, valueFrom: {secretKeyRef: {name: a, key: b}}}]", absent: []string{readable}},
		{values: "redis: {type: SENTINEL, url: 'a,h:1'}\nenv: {REDIS_SENTINEL_AUTH: pw, REDIS_AUTH: ''}", notes: []string{
			"env.REDIS_SENTINEL_AUTH" + readable + "REDIS_SENTINEL_AUTH_FILE with extraVolumes instead.",
		}, absent: []string{"env.REDIS_AUTH"}},
		{values: "env: {OTEL_EXPORTER_OTLP_HEADERS: a=b}", notes: []string{"env.OTEL_EXPORTER_OTLP_HEADERS" + readable + "extraEnv with valueFrom instead."}},
		{values: "aiGateway: {enabled: true}", service: "envoy-ai-gateway-ratelimit", absent: []string{noRules}, notes: []string{
			"One server counts in its memory", "Set controller.quotaRateLimitServiceAddr=envoy-ai-gateway-ratelimit.gateway in its chart", "ready when the controller has a QuotaPolicy",
		}},
		{values: "networkPolicy: {enabled: true}", ports: []string{"grpc", "http", "http-metrics"}, notes: []string{
			gateways + `[{"namespaceSelector":{},"podSelector":{"matchLabels":{"app.kubernetes.io/component":"gateway"}}}]. An Envoy in another pod gets no answer and lets all requests pass unlimited`,
		}},
		{values: "networkPolicy: {enabled: true, clients: [{podSelector: {matchLabels: {istio: ingressgateway}}}]}", notes: []string{
			gateways + `[{"podSelector":{"matchLabels":{"istio":"ingressgateway"}}}]`,
		}},
	} {
		t.Run(test.release+" "+test.values, func(t *testing.T) {
			t.Parallel()
			installed, err := order{name: cmp.Or(test.release, "edge"), values: test.values, skipSchema: test.ports != nil}.install()
			if test.wrong != "" && err != nil {
				testenv.Contains(t, err.Error(), test.wrong)
				return
			}
			testenv.OK(t, err)
			rendered, notes := decodeAll(t, installed.Manifest), installed.Info.Notes
			if service := all[*corev1.Service](rendered)[0]; test.service != "" && service.Name != test.service || test.wrong != "" {
				t.Errorf("the Service is %q, want %q", service.Name, test.service)
			}
			testenv.Contains(t, notes, test.notes...)
			testenv.Lacks(t, notes, test.absent...)
			var ports []string
			for _, policy := range all[*networkingv1.NetworkPolicy](rendered) {
				for _, rule := range policy.Spec.Ingress {
					if len(rule.From) == 0 {
						t.Errorf("ports %v are open to everyone", rule.Ports)
					}
					for _, port := range rule.Ports {
						ports = append(ports, port.Port.String())
					}
				}
			}
			if test.ports != nil && !slices.Equal(ports, test.ports) {
				t.Errorf("the ports %v are open, want %v", ports, test.ports)
			}
		})
	}
}

// TestChartRefuses renders invalid values. The error names them.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 0":                                                  "at '/replicas': minimum: got 0, want 1",
		"replica: 2":                                                   "additional properties 'replica' not allowed",
		"image: {pullPolicy: Sometimes}":                               "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
		"fullnameOverride: '123'":                                      "at '/fullnameOverride': '123' does not match pattern",
		"env: {log_format: text}":                                      "at '/env': additional properties 'log_format' not allowed",
		"rules: {files: {api.json: {}}}":                               "at '/rules/files': additional properties 'api.json' not allowed",
		"podDisruptionBudget: {maxUnavailable: 0}":                     "at '/podDisruptionBudget/maxUnavailable'",
		"networkPolicy: {clients: []}":                                 "at '/networkPolicy/clients': minItems: got 0, want 1",
		"networkPolicy: {enabled: true, clients: null}":                "at '/networkPolicy': missing property 'clients'",
		"networkPolicy: {prometheus: [{}]}":                            "at '/networkPolicy/prometheus/0': minProperties: got 0, want 1",
		"env: {GRPC_PORT: 1}":                                          "env.GRPC_PORT may not be set, the chart needs its default",
		"env: {DEBUG_HOST: 0.0.0.0}":                                   "env.DEBUG_HOST is set by debug.service, leave it out",
		"failureMode: deny\nenv: {FAILURE_MODE: allow}":                "env.FAILURE_MODE is set by failureMode, leave it out",
		"redis: {url: a, urlSecret: {name: b}}":                        "redis.url and redis.urlSecret.name are both set, only one may be",
		"redis: {url: a, authSecret: {name: a}}\nenv: {REDIS_AUTH: b}": "env.REDIS_AUTH is set by redis.authSecret, leave it out",
		"redis: {tls: {caSecret: a}}":                                  "redis.tls.caSecret needs redis.tls.enabled",
		"rules: {files: {a.yaml: ''}, existingConfigMap: b}":           "rules.files and rules.existingConfigMap are both set, only one may be",
		"tls: {clientCertificates: true}":                              "tls.clientCertificates needs tls.secretName",
		"tls: {secretName: a, clientName: b}":                          "tls.clientName needs tls.clientCertificates",
		"aiGateway: {enabled: true}\ntls: {secretName: a}":             "aiGateway.enabled and tls.secretName are both set",
		"aiGateway: {enabled: true}\nenv: {CONFIG_TYPE: FILE}":         "env.CONFIG_TYPE is set by aiGateway.enabled, leave it out",
		"aiGateway: {enabled: true}\nrules: {existingConfigMap: a}":    "rules.existingConfigMap has no effect with CONFIG_TYPE GRPC_XDS_SOTW",
		"debug: {service: true}":                                       "it needs adminToken.secretName",
		"serviceAccount: {name: a}":                                    "it needs serviceAccount.create=false",
		"autoscaling: {enabled: true, minReplicas: 11}":                "autoscaling.minReplicas is more than autoscaling.maxReplicas",
		"image: {repository: 'weir:v1'}":                               "at '/image/repository': 'weir:v1' does not match pattern",
		"rules: {files: {api.yaml: {}}}":                               "at '/rules/files/api.yaml': missing property 'domain'",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, rate_limit: {unit: minut, requests_per_unit: 5}}]}}}": "at '/rules/files/a.yaml/descriptors/0/rate_limit/unit': 'minut' does not match pattern",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: 9007199254740993}]}}}":                         "at '/rules/files/a.yaml/descriptors/0/value': got number, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: off}]}}}":                                      "at '/rules/files/a.yaml/descriptors/0/value': got boolean, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: [a, 12345678901234567890]}]}}}":                "at '/rules/files/a.yaml/descriptors/0/value': got array, want null or string",
		"env: {REDIS_AUTH: 01234}":            "at '/env/REDIS_AUTH': got number, want string",
		"env: {OTEL_A: 12345678901234567890}": "at '/env/OTEL_A': maximum: got ",
		"redis: {url: 'redis:6379', authSecret: {name: a}}\nenv: {REDIS_AUTH_COMMAND: a}":                                   "REDIS_AUTH_COMMAND (env) and REDIS_AUTH_FILE (redis.authSecret) are both set, only one may be",
		"redis: {url: 'redis:6379', authSecret: {name: a}}\nextraEnv: [{name: REDIS_AUTH, value: a}]":                       "REDIS_AUTH_FILE (redis.authSecret) and REDIS_AUTH (extraEnv) are both set, only one may be",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_AUTH_FILE: /a, REDIS_AUTH_COMMAND: a}":                                     "REDIS_AUTH_COMMAND (env) and REDIS_AUTH_FILE (env) are both set, only one may be",
		"redis: {type: SENTINEL, url: 'redis:6379'}":                                                                        "REDIS_URL (redis.url) is not NAME,host:port,... (the name of the primary, then its sentinels), which REDIS_TYPE SENTINEL needs",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_TYPE: sentinel}":                                                           "REDIS_URL (redis.url) is not NAME,host:port,...",
		"redis: {url: 'a,redis:6379'}":                                                                                      "REDIS_URL (redis.url) has several addresses, which needs REDIS_TYPE SENTINEL or CLUSTER",
		"env: {CONFIG_TYPE: grpc_xds_sotw}\nrules: {files: {a.yaml: ''}}":                                                   "rules.files has no effect with CONFIG_TYPE GRPC_XDS_SOTW, which takes the rules from a control plane, leave one of them out",
		"extraEnv: [{name: CONFIG_TYPE, value: GRPC_XDS_SOTW}]\nrules: {existingConfigMap: a}":                              "rules.existingConfigMap has no effect with CONFIG_TYPE GRPC_XDS_SOTW",
		"image: {digest: sha256:12}":                                                                                        "at '/image/digest': 'sha256:12' does not match pattern",
		"extraVolumes: [{name: a, emptyDir: {}, secret: {}}]":                                                               "at '/extraVolumes/0': maxProperties: got 3, want 2",
		"extraVolumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]":                                                  "extraVolumes has a twice",
		"extraVolumes: [{name: redis-url, emptyDir: {}}]\nredis: {urlSecret: {name: a}}":                                    "extraVolumes has redis-url, which the chart has already",
		"extraVolumeMounts: [{name: a}]":                                                                                    "at '/extraVolumeMounts/0': missing property 'mountPath'",
		"extraVolumeMounts: [{name: a, mountPath: /a}]":                                                                     "extraVolumeMounts has a, which extraVolumes does not have",
		"extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a/}]": "extraVolumeMounts has /a/, where something is mounted already",
		"extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /tls}]\ntls: {secretName: b}":    "extraVolumeMounts has /tls, where something is mounted already",
		"extraContainers: [{name: weir, image: b}]":                                                                         "extraContainers has weir, a name that is taken",
		"extraInitContainers: [{name: a, image: b}]\nextraContainers: [{name: a, image: b}]":                                "extraInitContainers has a, a name that is taken",
		"extraContainers: [{name: a, image: b, volumeMounts: [{name: c, mountPath: /c}]}]":                                  "extraContainers has a with volume c, which extraVolumes does not have",
		"resources: {limits: {memory: 256MB}}":                                                                              "at '/resources/limits/memory': '256MB' does not match pattern",
		"podLabels: {a b: c}":                                                                                               "at '/podLabels': additional properties 'a b' not allowed",
		"env: {LOG_FORMATT: json}":                                                                                          "env.LOG_FORMATT is no setting of Weir, other variables go into extraEnv",
		"env: {FAILURE_MODE: open}":                                                                                         "env.FAILURE_MODE is open; use error, allow, deny or local",
		"env: {DRAIN_DELAY: 5}":                                                                                             "DRAIN_DELAY is 5, which is no duration such as 5s",
		"env: {DRAIN_TIMEOUT: 1m}":                                                                                          "terminationGracePeriodSeconds is 30, it must be more than DRAIN_DELAY (10s) and DRAIN_TIMEOUT (1m) together",
		"extraEnv: [{name: DRAIN_DELAY, value: 20s}]":                                                                       "it must be more than DRAIN_DELAY (20s) and DRAIN_TIMEOUT (10s) together",
		"extraEnv: [{name: LOG_FORMAT, value: text}]":                                                                       "extraEnv sets LOG_FORMAT, which is set already",
		"extraEnv: [{name: DEBUG_HOST, value: a}]":                                                                          "extraEnv sets DEBUG_HOST, which is set already",
		"extraEnv: [{name: A}, {name: A}]":                                                                                  "extraEnv sets A, which is set already",
		"extraEnv: [{name: A, value: b, valueFrom: {}}]":                                                                    "extraEnv has A with value and valueFrom, only one may be",
		"redis: {authSecret: {name: a}}":                                                                                    "redis.authSecret.name needs redis.url or redis.urlSecret.name",
		"redis: {type: CLUSTER}":                                                                                            "redis.type needs redis.url or redis.urlSecret.name",
		"autoscaling: {enabled: true}\nresources: null":                                                                     "autoscaling.enabled needs resources.requests.cpu",
		"podLabels: {app.kubernetes.io/name: a}":                                                                            "podLabels has app.kubernetes.io/name, which the chart sets",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, err := render(values)
			testenv.Contains(t, fmt.Sprint(err), want)
		})
	}
}

// TestChartWithNull sets each value to null, so that Helm removes the default. Either the
// chart works without the value, or the error names it.
func TestChartWithNull(t *testing.T) {
	var defaults map[string]any
	testenv.OK(t, yaml.Unmarshal([]byte(testenv.Read(t, filepath.Join(chart, "values.yaml"))), &defaults))
	for _, path := range pathsIn("", defaults) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			// Features that are off by default must work without the value, too.
			installed, err := order{name: "edge", sets: []string{
				"autoscaling.enabled=" + strconv.FormatBool(!strings.HasPrefix(path, "resources")),
				"networkPolicy.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true,debug.service=true,adminToken.secretName=a",
				path + "=null",
			}}.install()
			if err == nil {
				testenv.Lacks(t, installed.Manifest, "<nil>")
				decodeAll(t, installed.Manifest)
				return
			}
			text, last := err.Error(), path[strings.LastIndex(path, ".")+1:]
			if strings.Contains(text, "nil pointer") || strings.Contains(text, "wrong type") || !strings.Contains(text, path) && !strings.Contains(text, "missing property '"+last+"'") {
				t.Errorf("the error does not name it: %v", err)
			}
		})
	}
}

// pathsIn returns the paths of all values in a map, each after before.
func pathsIn(before string, values map[string]any) (paths []string) {
	for name, value := range values {
		paths = append(paths, before+name)
		if inner, is := value.(map[string]any); is {
			paths = append(paths, pathsIn(before+name+".", inner)...)
		}
	}
	return paths
}

// TestReleasedChart renders the chart as scripts/release.sh packs it: with the version of
// the release, and with files in the place of links.
func TestReleasedChart(t *testing.T) {
	for version, number := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-gabcdef0": "1.2.3-4-gabcdef0", "0123456": "0.0.0-g0123456"} {
		dir := t.TempDir()
		if out, err := exec.Command("../../../scripts/chart.sh", dir, version).CombinedOutput(); err != nil {
			t.Fatalf("chart.sh: %v\n%s", err, out)
		}
		released := filepath.Join(dir, "weir")
		if out, err := helm(t, "lint", "--strict", released).CombinedOutput(); err != nil {
			t.Errorf("helm lint: %v\n%s", err, out)
		}
		manifests := testenv.Must(helm(t, "template", "edge", released, "--set", "prometheusRule.enabled=true,dashboard.enabled=true").Output())(t)
		testenv.Contains(t, string(manifests), `/weir:`+version+`"`, `app.kubernetes.io/version: "`+version+`"`, "helm.sh/chart: weir-"+number+"\n")
		testenv.OK(t, filepath.WalkDir(released, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeSymlink != 0 {
				t.Errorf("%s is a symbolic link", path)
			}
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			for _, found := range regexp.MustCompile(`\]\(([^)#:\s]+)[^)]*\)`).FindAllStringSubmatch(testenv.Read(t, path), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
					t.Errorf("a link of %s: %v", path, err)
				}
			}
			return nil
		}))
	}
}

// TestChartReadme installs the chart with the values and the command in README.md, and with the
// command of examples/ai-gateway.
func TestChartReadme(t *testing.T) {
	values := testenv.File(t, "my.yaml", documented(t)[2].values)
	for _, readme := range []struct{ file, command, address string }{
		{filepath.Join(chart, "README.md"), `helm install weir deploy/chart --namespace gateway --values my\.yaml`, "weir.gateway"},
		{"../../../examples/ai-gateway/README.md", "helm install .*", "envoy-ai-gateway-ratelimit.envoy-gateway-system"},
	} {
		command := regexp.MustCompile("(?m)^ {4}" + readme.command + "$").FindString(testenv.Read(t, readme.file))
		words := strings.Fields(strings.NewReplacer("my.yaml", values, "deploy/chart", chart).Replace(command))
		notes, err := helm(t, append(words[1:], "--dry-run=client")...).CombinedOutput()
		if err != nil || !strings.Contains(string(notes), "Envoy asks Weir at "+readme.address+":8081 (gRPC).") || strings.Contains(string(notes), "WARNING") {
			t.Errorf("%s: %v\n%s", command, err, notes)
		}
	}
}
