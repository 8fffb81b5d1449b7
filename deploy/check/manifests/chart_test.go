package manifests

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const chart = "../../../deploy/chart"

// valueSets are values that the chart is rendered with, the kinds that come out of it
// beside a Deployment and a Service, and some of the text.
var valueSets = []struct {
	name, values string
	kinds        []string
	text         []string
}{
	{"defaults", "", []string{"PodDisruptionBudget", "ServiceAccount"}, []string{"  replicas: 2\n", "clusterIP: None"}},
	{"everything", everything, []string{
		"ConfigMap", "ConfigMap", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "ServiceAccount", "ServiceMonitor",
	}, []string{"minReplicas: 3\n", "maxReplicas: 20\n", "averageUtilization: 60}", "maxSkew: 2\n", "appProtocol: tls}", `grafana_dashboard: "1"`}},
	{"nothing that can be left out", `
podDisruptionBudget: {enabled: false}
topologySpread: {enabled: false}
serviceAccount: {create: false}
service: {headless: false}
resources: null
replicas: 1000000
podAnnotations: null
env: {OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", GOMAXPROCS: 1, DRAIN_DELAY: "", DRAIN_TIMEOUT: 24.5s}
`, nil, []string{"  replicas: 1000000\n"}},
	{"ConfigMap and Secrets that are there", `
rules: {existingConfigMap: rules}
redis: {urlSecret: {name: redis}, authSecret: {name: "123"}}
serviceAccount: {create: false, name: weir}
podDisruptionBudget: {maxUnavailable: 25%}
`, []string{"PodDisruptionBudget"}, []string{
		"maxUnavailable: 25%\n", `{name: "REDIS_URL_FILE", value: "/redis-url/url"}`, "secretName: redis\n",
		`{name: "REDIS_AUTH_FILE", value: "/redis-auth/password"}`, "secretName: \"123\"\n", "configMap:\n            name: rules\n",
	}},
	{"Redis by extraEnv", `
redis: {type: CLUSTER, tls: {enabled: true}}
extraEnv: [{name: REDIS_URL, valueFrom: {secretKeyRef: {name: redis, key: url}}}, {name: DRAIN_DELAY, valueFrom: {configMapKeyRef: {name: a, key: b}}}]
resources: {requests: {cpu: 0.5}, limits: {memory: 1.5Gi, example.com/gpu: 1}}
image: {tag: "_a."}
`, []string{"PodDisruptionBudget", "ServiceAccount"}, []string{`app.kubernetes.io/version: "a"`}},
	{"image by digest", "image: {repository: example.com/weir, tag: v1, digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}", []string{"PodDisruptionBudget", "ServiceAccount"}, []string{
		`image: "example.com/weir@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`, `app.kubernetes.io/version: "v1"`,
	}},
	{"TLS without certificates of clients", "tls: {secretName: tls}", []string{"PodDisruptionBudget", "ServiceAccount"}, []string{"secretName: tls\n"}},
	{"text that YAML could misread", `
nameOverride: "1"
image: {tag: "1.20", pullSecrets: ["1"]}
env: {EXTRA_TAGS: "on", SHADOW_MODE: true, NEAR_LIMIT_RATIO: "0.5", MAX_DESCRIPTORS: 20000000}
rules: {files: {2.yaml: {domain: a, descriptors: [{key: a, value: "01234", rate_limit: {unit: day, requests_per_unit: 1125899906842624}}]}, 1.yaml: "   # indented\ndomain: '1'\ndescriptors: []\n"}}
`, []string{"ConfigMap", "PodDisruptionBudget", "ServiceAccount"}, []string{
		`{name: "MAX_DESCRIPTORS", value: "20000000"}`, `{name: "EXTRA_TAGS", value: "on"}`, "|2\n       # indented\n    domain: '1'\n",
		`value: "01234"`, "requests_per_unit: 1125899906842624\n",
	}},
}

const everything = `
nameOverride: limits
image: {repository: ghcr.io/weir, tag: v1, pullPolicy: Always, pullSecrets: [registry]}
autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 20, cpuUtilization: 60}
topologySpread: {topologyKeys: [topology.kubernetes.io/zone], maxSkew: 2, whenUnsatisfiable: DoNotSchedule}
redis: {url: "a:1,b:2", authSecret: {name: redis}, type: CLUSTER, tls: {enabled: true, caSecret: redis-ca}}
failureMode: local
rules:
  files:
    api.yaml: {domain: api, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]}
    shop.yaml: |
      domain: shop
      descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 5}}]
tls: {secretName: tls, clientCertificates: true, clientName: "spiffe://mesh/ns/gateway/sa/envoy"}
adminToken: {secretName: admin, key: admin}
debug: {service: true}
env: {LOG_LEVEL: debug}
extraEnv: [{name: TRACING_ENABLED, valueFrom: {configMapKeyRef: {name: tracing, key: enabled}}}]
extraVolumes: [{name: cert, secret: {secretName: cert}}, {name: token, emptyDir: {medium: Memory}}]
extraVolumeMounts: [{name: cert, mountPath: /cert, readOnly: true}]
extraInitContainers:
  - {name: first, image: a, volumeMounts: [{name: token, mountPath: /token}], securityContext: &restricted {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}}
extraContainers:
  - {name: next, image: a, args: [every, 5m], volumeMounts: [{name: token, mountPath: /token}], securityContext: *restricted}
service: {annotations: {a: b}}
serviceAccount: {annotations: {a: b}}
networkPolicy: {enabled: true, operators: [{ipBlock: {cidr: 10.0.0.0/8}}]}
serviceMonitor: {enabled: true, interval: 1m, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}, runbookURL: "https://example.com/at-3am"}
dashboard: {enabled: true, annotations: {folder: limits}}
podAnnotations: {a: b}
podLabels: {a: b}
priorityClassName: high
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
`

// findHelm builds helm, unless that is done, and returns its path.
var findHelm = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm returns a command of the helm of this module. Its files are the test's.
func helm(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := findHelm()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	return cmd
}

// render returns the manifests that the chart makes of values, or what helm says is wrong.
// flags are more of `helm template`.
func render(t *testing.T, values string, flags ...string) (manifests string, err error) {
	t.Helper()
	cmd := helm(t, append([]string{"template", "edge", chart, "--namespace", "gateway", "--values", "-"}, flags...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(values), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.New(stderr.String())
	}
	return stdout.String(), nil
}

// TestChart renders the chart and holds the outcome to the schemas of Kubernetes, to
// itself, to Pod Security and to what Istio needs.
func TestChart(t *testing.T) {
	schemas := readSchemas(t)
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range valueSets {
		t.Run(test.name, func(t *testing.T) {
			lint := helm(t, "lint", "--strict", chart, "--values", "-")
			lint.Stdin = strings.NewReader(test.values)
			if out, err := lint.CombinedOutput(); err != nil {
				t.Errorf("helm lint: %v\n%s", err, out)
			}
			manifests, err := render(t, test.values)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range test.text {
				if !strings.Contains(manifests, text) {
					t.Errorf("there is no %q in:\n%s", text, manifests)
				}
			}
			rendered := &set{elsewhere: []string{"rules"}}
			var kinds []string
			for _, document := range documents([]byte(manifests)) {
				object := decode(t, schemas, document)
				rendered.add(object)
				if kind := kindOf(t, document); kind != "Deployment" && kind != "Service" {
					kinds = append(kinds, kind)
				}
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, test.kinds) {
				t.Errorf("there are %v, want %v", kinds, test.kinds)
			}
			if len(rendered.deployments) != 1 || len(rendered.services) != 1 {
				t.Fatalf("%d Deployments and %d Services, want 1 of each", len(rendered.deployments), len(rendered.services))
			}
			rendered.check(t)
			checkPod(t, evaluator, rendered.deployments[0])
			checkPorts(t, rendered.services[0])
		})
	}
}

// checkPod holds the pods of a Deployment to the profile restricted, and to a file system
// that cannot be written, which that does not ask for.
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

// checkPorts sees that Istio knows the protocol of each port of a Service, by
// appProtocol, or by what its name starts with.
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

// TestChartOpensPortsToNamedClients renders NetworkPolicies with lists that are missing or
// empty, which in a NetworkPolicy would admit everyone.
func TestChartOpensPortsToNamedClients(t *testing.T) {
	for _, test := range []struct {
		values string
		ports  []string
	}{
		{"networkPolicy: {enabled: true}", []string{"grpc", "http", "http-metrics"}},
		{"networkPolicy: {enabled: true, clients: null}", []string{"http-metrics"}},
		{"networkPolicy: {enabled: true, clients: []}", []string{"http-metrics"}},
		{"networkPolicy: {enabled: true, prometheus: null}", []string{"grpc", "http"}},
		{"networkPolicy: {enabled: true, prometheus: []}", []string{"grpc", "http"}},
		{"networkPolicy: {enabled: true, operators: null}\ndebug: {service: true}\nadminToken: {secretName: a}", []string{"grpc", "http", "http-metrics"}},
		{"networkPolicy: {enabled: true, clients: null, prometheus: null}", nil},
	} {
		t.Run(test.values, func(t *testing.T) {
			t.Parallel()
			// The schema refuses some of these.
			manifests, err := render(t, test.values, "--skip-schema-validation", "--show-only", "templates/networkpolicy.yaml")
			if err != nil {
				t.Fatal(err)
			}
			rendered := new(set)
			rendered.add(decode(t, nil, []byte(manifests)))
			var ports []string
			for _, rule := range rendered.policies[0].Spec.Ingress {
				if len(rule.From) == 0 {
					t.Errorf("ports %v are open to everyone", rule.Ports)
				}
				for _, port := range rule.Ports {
					ports = append(ports, port.Port.String())
				}
			}
			if !slices.Equal(ports, test.ports) {
				t.Errorf("the ports %v are open, want %v", ports, test.ports)
			}
		})
	}
}

// TestChartGoesToWeir follows values to what Weir is started with.
func TestChartGoesToWeir(t *testing.T) {
	manifests, err := render(t, everything)
	if err != nil {
		t.Fatal(err)
	}
	schemas, rendered := readSchemas(t), new(set)
	for _, document := range documents([]byte(manifests)) {
		rendered.add(decode(t, schemas, document))
	}
	settings := readFile(t, "../../../docs/settings.md")
	got := map[string]string{}
	for _, variable := range rendered.deployments[0].Spec.Template.Spec.Containers[0].Env {
		got[variable.Name] = variable.Value
		if !strings.Contains(settings, "`"+variable.Name+"`") {
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
	for name, rules := range rendered.configs["gateway/edge-limits-rules"].Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	validate := exec.Command("go", "run", "./cmd/server", "validate", dir)
	validate.Dir = "../../.."
	if out, err := validate.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "valid: files=2 ") {
		t.Errorf("weir validate: %v\n%s", err, out)
	}
	if !strings.Contains(manifests, "runbook_url: https://example.com/at-3am#redis-fails") {
		t.Error("the alerts do not lead to prometheusRule.runbookURL")
	}
}

// TestChartRefuses renders values that are none. The error names them.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 0":                                                  "at '/replicas': minimum: got 0, want 1",
		"replica: 2":                                                   "additional properties 'replica' not allowed",
		"image: {pullPolicy: Sometimes}":                               "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
		"image: {tag: 'a b'}":                                          "at '/image/tag': 'a b' does not match pattern",
		"fullnameOverride: '123'":                                      "at '/fullnameOverride': '123' does not match pattern",
		"redis: {ulr: a}":                                              "at '/redis': additional properties 'ulr' not allowed",
		"redis: {type: Cluster}":                                       "at '/redis/type': value must be one of",
		"redis: {urlSecret: {name: A_B}}":                              "at '/redis/urlSecret/name': 'A_B' does not match pattern",
		"failureMode: open":                                            "at '/failureMode': value must be one of '', 'error', 'allow', 'deny', 'local'",
		"env: {log_format: text}":                                      "at '/env': additional properties 'log_format' not allowed",
		"rules: {files: {api.json: {}}}":                               "at '/rules/files': additional properties 'api.json' not allowed",
		"podDisruptionBudget: {maxUnavailable: 0}":                     "at '/podDisruptionBudget/maxUnavailable'",
		"networkPolicy: {clients: []}":                                 "at '/networkPolicy/clients': minItems: got 0, want 1",
		"networkPolicy: {enabled: true, clients: null}":                "at '/networkPolicy': missing property 'clients'",
		"networkPolicy: {prometheus: [{}]}":                            "at '/networkPolicy/prometheus/0': minProperties: got 0, want 1",
		"serviceMonitor: {interval: often}":                            "at '/serviceMonitor/interval': 'often' does not match pattern",
		"topologySpread: {topologyKeys: []}":                           "at '/topologySpread/topologyKeys': minItems: got 0, want 1",
		"env: {GRPC_PORT: 1}":                                          "env.GRPC_PORT may not be set, the chart needs its default",
		"env: {DEBUG_HOST: 0.0.0.0}":                                   "env.DEBUG_HOST is set by debug.service, leave it out",
		"failureMode: deny\nenv: {FAILURE_MODE: allow}":                "env.FAILURE_MODE is set by failureMode, leave it out",
		"redis: {url: a, urlSecret: {name: b}}":                        "redis.url and redis.urlSecret.name are both set, only one may be",
		"redis: {url: a, authSecret: {name: a}}\nenv: {REDIS_AUTH: b}": "env.REDIS_AUTH is set by redis.authSecret, leave it out",
		"redis: {tls: {caSecret: a}}":                                  "redis.tls.caSecret needs redis.tls.enabled",
		"rules: {files: {a.yaml: ''}, existingConfigMap: b}":           "rules.files and rules.existingConfigMap are both set, only one may be",
		"tls: {clientCertificates: true}":                              "tls.clientCertificates needs tls.secretName",
		"tls: {secretName: a, clientName: b}":                          "tls.clientName needs tls.clientCertificates",
		"debug: {service: true}":                                       "it needs adminToken.secretName",
		"serviceAccount: {name: a}":                                    "it needs serviceAccount.create=false",
		"autoscaling: {enabled: true, minReplicas: 11}":                "autoscaling.minReplicas is more than autoscaling.maxReplicas",
		"image: {repository: 'weir:v1'}":                               "at '/image/repository': 'weir:v1' does not match pattern",
		"image: {tag: -a}":                                             "at '/image/tag': '-a' does not match pattern",
		"redis: {urlSecret: {name: a..b}}":                             "at '/redis/urlSecret/name': 'a..b' does not match pattern",
		"adminToken: {key: ..}":                                        "at '/adminToken/key': '..' does not match pattern",
		"rules: {files: {.api.yaml: ''}}":                              "at '/rules/files': additional properties '.api.yaml' not allowed",
		"rules: {files: {api.yaml: {}}}":                               "at '/rules/files/api.yaml': missing property 'domain'",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, rate_limit: {unit: minut, requests_per_unit: 5}}]}}}": "at '/rules/files/a.yaml/descriptors/0/rate_limit/unit': 'minut' does not match pattern",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: 9007199254740993}]}}}":                         "at '/rules/files/a.yaml/descriptors/0/value': got number, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: 01234}]}}}":                                    "at '/rules/files/a.yaml/descriptors/0/value': got number, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: 1.10}]}}}":                                     "at '/rules/files/a.yaml/descriptors/0/value': got number, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: off}]}}}":                                      "at '/rules/files/a.yaml/descriptors/0/value': got boolean, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, values: [a, 12345678901234567890]}]}}}":               "at '/rules/files/a.yaml/descriptors/0/values/1': got number, want string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: 1}]}}}":                                                  "at '/rules/files/a.yaml/descriptors/0/key': got number, want string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, regex: 1.10}]}}}":                                     "at '/rules/files/a.yaml/descriptors/0/regex': got number, want string",
		"rules: {files: {a.yaml: {domain: 1}}}":                                                                           "at '/rules/files/a.yaml/domain': got number, want string",
		"rules: {files: {a.yaml: {domain: a, otherwise: {rate_limit: {name: 1, unlimited: true}}}}}":                      "at '/rules/files/a.yaml/otherwise/rate_limit/name': got number, want null or string",
		"env: {REDIS_AUTH: 01234}":            "at '/env/REDIS_AUTH': got number, want string",
		"env: {OTEL_A: 12345678901234567890}": "at '/env/OTEL_A': maximum: got ",
		"redis: {url: 'redis:6379', authSecret: {name: a}}\nenv: {REDIS_AUTH_COMMAND: a}":                                   "REDIS_AUTH_COMMAND (env) and REDIS_AUTH_FILE (redis.authSecret) are both set, only one may be",
		"redis: {url: 'redis:6379', authSecret: {name: a}}\nextraEnv: [{name: REDIS_AUTH, value: a}]":                       "REDIS_AUTH_FILE (redis.authSecret) and REDIS_AUTH (extraEnv) are both set, only one may be",
		"redis: {urlSecret: {name: a}}\nextraEnv: [{name: REDIS_URL, value: a}]":                                            "REDIS_URL_FILE (redis.urlSecret) and REDIS_URL (extraEnv) are both set, only one may be",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_AUTH_FILE: /a, REDIS_AUTH_COMMAND: a}":                                     "REDIS_AUTH_COMMAND (env) and REDIS_AUTH_FILE (env) are both set, only one may be",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_SENTINEL_AUTH_FILE: /a, REDIS_SENTINEL_AUTH: a}":                           "REDIS_SENTINEL_AUTH_FILE (env) and REDIS_SENTINEL_AUTH (env) are both set, only one may be",
		"redis: {type: SENTINEL, url: 'redis:6379'}":                                                                        "REDIS_URL (redis.url) is not NAME,host:port,... (the name of the primary, then its sentinels), which REDIS_TYPE SENTINEL needs",
		"redis: {type: SENTINEL, url: 'a:1,b:2'}":                                                                           "REDIS_URL (redis.url) is not NAME,host:port,...",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_TYPE: sentinel}":                                                           "REDIS_URL (redis.url) is not NAME,host:port,...",
		"redis: {url: 'a,redis:6379'}":                                                                                      "REDIS_URL (redis.url) has several addresses, which needs REDIS_TYPE SENTINEL or CLUSTER",
		"env: {CONFIG_TYPE: grpc_xds_sotw}\nrules: {files: {a.yaml: ''}}":                                                   "rules.files has no effect with CONFIG_TYPE GRPC_XDS_SOTW, which takes the rules from a control plane, leave one of them out",
		"extraEnv: [{name: CONFIG_TYPE, value: GRPC_XDS_SOTW}]\nrules: {existingConfigMap: a}":                              "rules.existingConfigMap has no effect with CONFIG_TYPE GRPC_XDS_SOTW",
		"image: {digest: sha256:12}":                                                                                        "at '/image/digest': 'sha256:12' does not match pattern",
		"extraVolumes: [{name: a}]":                                                                                         "at '/extraVolumes/0': minProperties: got 1, want 2",
		"extraVolumes: [{name: a, emptyDir: {}, secret: {}}]":                                                               "at '/extraVolumes/0': maxProperties: got 3, want 2",
		"extraVolumes: [{name: A, emptyDir: {}}]":                                                                           "at '/extraVolumes/0/name': 'A' does not match pattern",
		"extraVolumes: [{name: a, empty: {}}]":                                                                              "at '/extraVolumes/0': additional properties 'empty' not allowed",
		"extraVolumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]":                                                  "extraVolumes has a twice",
		"extraVolumes: [{name: redis-url, emptyDir: {}}]\nredis: {urlSecret: {name: a}}":                                    "extraVolumes has redis-url, which the chart has already",
		"extraVolumeMounts: [{name: a}]":                                                                                    "at '/extraVolumeMounts/0': missing property 'mountPath'",
		"extraVolumeMounts: [{name: a, mountPath: a}]":                                                                      "at '/extraVolumeMounts/0/mountPath': 'a' does not match pattern",
		"extraVolumeMounts: [{name: a, mountPath: /a}]":                                                                     "extraVolumeMounts has a, which extraVolumes does not have",
		"extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a/}]": "extraVolumeMounts has /a/, where something is mounted already",
		"extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /tls}]\ntls: {secretName: b}":    "extraVolumeMounts has /tls, where something is mounted already",
		"extraContainers: [{name: a}]":                                                                                      "at '/extraContainers/0': missing property 'image'",
		"extraContainers: [{name: a, image: b, volumeMount: []}]":                                                           "at '/extraContainers/0': additional properties 'volumeMount' not allowed",
		"extraContainers: [{name: weir, image: b}]":                                                                         "extraContainers has weir, a name that is taken",
		"extraInitContainers: [{name: a, image: b}]\nextraContainers: [{name: a, image: b}]":                                "extraInitContainers has a, a name that is taken",
		"extraContainers: [{name: a, image: b, volumeMounts: [{name: c, mountPath: /c}]}]":                                  "extraContainers has a with volume c, which extraVolumes does not have",
		"extraInitContainers: [{name: 1, image: b}]":                                                                        "at '/extraInitContainers/0/name': got number, want string",
		"resources: {limits: {memory: 256MB}}":                                                                              "at '/resources/limits/memory': '256MB' does not match pattern",
		"resources: {requests: {memory: -1}}":                                                                               "at '/resources/requests/memory': minimum: got -1, want 0",
		"resources: {limits: {mem: 1Gi}}":                                                                                   "at '/resources/limits': additional properties 'mem' not allowed",
		"podLabels: {a b: c}":                                                                                               "at '/podLabels': additional properties 'a b' not allowed",
		"nodeSelector: {a: b c}":                                                                                            "at '/nodeSelector/a': 'b c' does not match pattern",
		"service: {annotations: {a b: c}}":                                                                                  "at '/service/annotations': additional properties 'a b' not allowed",
		"affinity: {nodeAfinity: {}}":                                                                                       "at '/affinity': additional properties 'nodeAfinity' not allowed",
		"tolerations: [{effect: NoShedule}]":                                                                                "at '/tolerations/0/effect': value must be one of",
		"networkPolicy: {clients: [{ipBlock: {}}]}":                                                                         "at '/networkPolicy/clients/0/ipBlock': missing property 'cidr'",
		"extraEnv: [{name: A B}]":                                                                                           "at '/extraEnv/0/name': 'A B' does not match pattern",
		"env: {LOG_FORMATT: json}":                                                                                          "env.LOG_FORMATT is no setting of Weir, other variables go into extraEnv",
		"env: {FAILURE_MODE: open}":                                                                                         "env.FAILURE_MODE is open, allowed are error, allow, deny and local",
		"env: {DRAIN_DELAY: 5}":                                                                                             "DRAIN_DELAY is 5, which is no duration such as 5s",
		"env: {DRAIN_TIMEOUT: 1m}":                                                                                          "terminationGracePeriodSeconds is 30, it must be more than DRAIN_DELAY (5s) and DRAIN_TIMEOUT (1m) together",
		"terminationGracePeriodSeconds: 15":                                                                                 "terminationGracePeriodSeconds is 15, it must be more than DRAIN_DELAY (5s) and DRAIN_TIMEOUT (10s) together",
		"extraEnv: [{name: DRAIN_DELAY, value: 20s}]":                                                                       "it must be more than DRAIN_DELAY (20s) and DRAIN_TIMEOUT (10s) together",
		"extraEnv: [{name: LOG_FORMAT, value: text}]":                                                                       "extraEnv sets LOG_FORMAT, which is set already",
		"extraEnv: [{name: DEBUG_HOST, value: a}]":                                                                          "extraEnv sets DEBUG_HOST, which is set already",
		"extraEnv: [{name: A}, {name: A}]":                                                                                  "extraEnv sets A, which is set already",
		"extraEnv: [{name: A, value: b, valueFrom: {}}]":                                                                    "extraEnv has A with value and valueFrom, only one may be",
		"redis: {authSecret: {name: a}}":                                                                                    "redis.authSecret.name needs redis.url or redis.urlSecret.name",
		"redis: {type: CLUSTER}":                                                                                            "redis.type needs redis.url or redis.urlSecret.name",
		"redis: {tls: {enabled: true}}":                                                                                     "redis.tls.enabled needs redis.url or redis.urlSecret.name",
		"autoscaling: {enabled: true}\nresources: null":                                                                     "autoscaling.enabled needs resources.requests.cpu",
		"podLabels: {app.kubernetes.io/name: a}":                                                                            "podLabels has app.kubernetes.io/name, which the chart sets",
		"serviceMonitor: {labels: {helm.sh/chart: a}}":                                                                      "serviceMonitor.labels has helm.sh/chart, which the chart sets",
		"prometheusRule: {labels: {helm.sh/chart: a}}":                                                                      "prometheusRule.labels has helm.sh/chart, which the chart sets",
		"dashboard: {labels: {helm.sh/chart: a}}":                                                                           "dashboard.labels has helm.sh/chart, which the chart sets",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// TestChartExamples renders the values in comments of values.yaml.
func TestChartExamples(t *testing.T) {
	comments := regexp.MustCompile(`(?m)^# Example.*:\n((?:# {3}.*\n)+)`).FindAllStringSubmatch(readFile(t, filepath.Join(chart, "values.yaml")), -1)
	want := [][]string{
		{`{name: "REDIS_SENTINEL_AUTH_FILE", value: "/sentinel/password"}`, "mountPath: /sentinel\n", "secretName: redis-sentinel\n"},
		{`{name: "REDIS_AUTH_FILE", value: "/token/token"}`, "restartPolicy: Always\n", "emptyDir:\n            medium: Memory\n"},
	}
	if len(comments) != len(want) {
		t.Fatalf("values.yaml has %d examples, want %d", len(comments), len(want))
	}
	for i, comment := range comments {
		manifests, err := render(t, strings.ReplaceAll(comment[1], "#   ", ""))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want[i] {
			if !strings.Contains(manifests, text) {
				t.Errorf("there is no %q in:\n%s", text, manifests)
			}
		}
		for _, document := range documents([]byte(manifests)) {
			decode(t, readSchemas(t), document)
		}
	}
}

// TestChartNotes reads what `helm install` says, of which has and hasNot are parts.
func TestChartNotes(t *testing.T) {
	const (
		noRules  = "serves the examples in its image"
		noRedis  = "there is no Redis"
		readable = " holds a password or token. All who may read the Deployment can read it. Use "
		gateways = "networkPolicy.clients admits only "
	)
	for _, test := range []struct {
		values      string
		has, hasNot []string
	}{
		{"", []string{noRules, noRedis}, []string{readable, gateways}},
		{"env: {CONFIG_TYPE: GRPC_XDS_SOTW, REDIS_URL: 'redis:6379'}", nil, []string{noRules, noRedis, readable}},
		{"extraEnv: [{name: REDIS_URL, valueFrom: {}}, {name: CONFIG_TYPE, value: grpc_xds_sotw}]", nil, []string{noRules, noRedis, readable}},
		{"env: {CONFIG_PATH: /config/mine, REDIS_URL_FILE: /redis}", nil, []string{noRules, noRedis, readable}},
		{"env: {CONFIG_TYPE: FILE, RUNTIME_ROOT: /config}", []string{noRedis}, []string{noRules}},
		{"rules: {existingConfigMap: a}\nredis: {urlSecret: {name: a}}", nil, []string{noRules, noRedis, readable}},
		{"redis: {url: 'redis://u@h:1', authSecret: {name: a}}", nil, []string{readable}},
		{"redis: {url: 'redis://u:pw@h:1'}", []string{"redis.url" + readable + "redis.urlSecret instead.", noRules}, []string{noRedis, "u:pw"}},
		{"redis: {url: 'redis://h:1?password=pw'}", []string{"redis.url" + readable}, []string{"=pw"}},
		{"env: {REDIS_URL: 'redis://u:pw@h:1'}", []string{"env.REDIS_URL" + readable + "redis.urlSecret instead."}, nil},
		{"redis: {url: 'h:1'}\nenv: {REDIS_AUTH: pw}", []string{"env.REDIS_AUTH" + readable + "redis.authSecret instead."}, nil},
		{"redis: {url: 'h:1'}\nextraEnv: [{name: REDIS_AUTH, value: pw}]", []string{"REDIS_AUTH in extraEnv" + readable + "redis.authSecret instead."}, nil},
		{"redis: {url: 'h:1'}\nextraEnv: [{name: REDIS_AUTH, valueFrom: {secretKeyRef: {name: a, key: b}}}]", nil, []string{readable}},
		{"redis: {type: SENTINEL, url: 'a,h:1'}\nenv: {REDIS_SENTINEL_AUTH: pw, REDIS_AUTH: ''}", []string{
			"env.REDIS_SENTINEL_AUTH" + readable + "REDIS_SENTINEL_AUTH_FILE with extraVolumes instead.",
		}, []string{"env.REDIS_AUTH"}},
		{"env: {OTEL_EXPORTER_OTLP_HEADERS: a=b}", []string{"env.OTEL_EXPORTER_OTLP_HEADERS" + readable + "OTEL_EXPORTER_OTLP_HEADERS_FILE with extraVolumes instead."}, nil},
		{"networkPolicy: {enabled: true}", []string{
			gateways + `[{"namespaceSelector":{},"podSelector":{"matchLabels":{"app.kubernetes.io/component":"gateway"}}}]. An Envoy in another pod gets no answer and lets all requests pass unlimited`,
		}, nil},
		{"networkPolicy: {enabled: true, clients: [{podSelector: {matchLabels: {istio: ingressgateway}}}]}", []string{
			gateways + `[{"podSelector":{"matchLabels":{"istio":"ingressgateway"}}}]`,
		}, nil},
	} {
		t.Run(test.values, func(t *testing.T) {
			t.Parallel()
			cmd := helm(t, "install", "edge", chart, "--dry-run=client", "--values", "-")
			cmd.Stdin = strings.NewReader(test.values)
			out, err := cmd.CombinedOutput()
			_, notes, found := strings.Cut(string(out), "NOTES:\n")
			if err != nil || !found {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, text := range test.has {
				if !strings.Contains(notes, text) {
					t.Errorf("there is no %q in:\n%s", text, notes)
				}
			}
			for _, text := range test.hasNot {
				if strings.Contains(notes, text) {
					t.Errorf("there is %q in:\n%s", text, notes)
				}
			}
		})
	}
}

// mayBeNull are values with a default that the chart does without.
var mayBeNull = []string{
	"resources", "resources.requests", "resources.requests.cpu", "resources.requests.memory", "resources.limits", "resources.limits.memory",
	"env.LOG_FORMAT", "networkPolicy.prometheus", "dashboard.labels", "dashboard.labels.grafana_dashboard",
}

// TestChartWithNull sets each value to null, for which Helm takes the default away. Either
// the chart does without it, or the error says that it is missing.
func TestChartWithNull(t *testing.T) {
	var defaults map[string]any
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(chart, "values.yaml"))), &defaults); err != nil {
		t.Fatal(err)
	}
	for path, value := range valuesIn("", defaults) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			names := strings.Split(path, ".")
			last := names[len(names)-1]
			// Also what is off by default has to do without the value.
			manifests, err := render(t, "", "--set", "autoscaling.enabled="+strconv.FormatBool(!strings.HasPrefix(path, "resources")),
				"--set", "networkPolicy.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true,debug.service=true,adminToken.secretName=a",
				"--set", path+"=null")
			needed := value != nil && !slices.Contains(mayBeNull, path)
			switch missing := "missing property '" + last + "'"; {
			case err != nil && (strings.Contains(err.Error(), "nil pointer") || strings.Contains(err.Error(), "wrong type")):
				t.Errorf("the template fails: %v", err)
			case needed && (err == nil || !strings.Contains(err.Error(), missing)):
				t.Errorf("got %v, want %s", err, missing)
			case !needed && err != nil && !strings.Contains(err.Error(), path):
				t.Error(err)
			case !needed && err == nil && strings.Contains(manifests, "<nil>"):
				t.Errorf("nothing is written as <nil>:\n%s", manifests)
			}
		})
	}
}

// valuesIn returns the values in a map, by path, and nil for those that are empty.
func valuesIn(path string, values map[string]any) map[string]any {
	found := map[string]any{}
	for name, value := range values {
		name = path + name
		switch v := value.(type) {
		case map[string]any:
			maps.Copy(found, valuesIn(name+".", v))
			if len(v) == 0 {
				value = nil
			}
		case []any:
			if len(v) == 0 {
				value = nil
			}
		case string:
			if v == "" {
				value = nil
			}
		}
		found[name] = value
	}
	return found
}

// TestChartNames renders names of releases and of values that are no names of a Service.
func TestChartNames(t *testing.T) {
	for _, test := range []struct{ release, values, name, wrong string }{
		{release: "edge", name: "edge-weir"},
		{release: "my.edge", name: "my-edge-weir"},
		{release: "a.weir", name: "a-weir"},
		{release: "edge", values: "nameOverride: a.b", name: "edge-a-b"},
		{release: "edge", values: "fullnameOverride: limits", name: "limits"},
		{release: "edge", values: "nameOverride: " + strings.Repeat("a", 57) + "--b", name: "edge-" + strings.Repeat("a", 57)},
		{release: "1edge", wrong: "1edge-weir is no name of a Service, which starts with a letter, set fullnameOverride"},
		{release: "1edge", values: "fullnameOverride: edge", name: "edge"},
	} {
		t.Run(test.release+" "+test.values, func(t *testing.T) {
			t.Parallel()
			cmd := helm(t, "template", test.release, chart, "--values", "-", "--show-only", "templates/service.yaml")
			cmd.Stdin = strings.NewReader(test.values)
			out, err := cmd.Output()
			if test.wrong != "" {
				var exit *exec.ExitError
				if !errors.As(err, &exit) || !strings.Contains(string(exit.Stderr), test.wrong) {
					t.Errorf("got %v, want %s", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if service := decode(t, nil, out).(*corev1.Service); service.Name != test.name {
				t.Errorf("the Service is %s, want %s", service.Name, test.name)
			}
		})
	}
}
