package manifests

import (
	"strings"
	"testing"
)

// TestChartRefuses renders values that are none. The error names them.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 0":                                                  "at '/replicas': minimum: got 0, want 1",
		"replica: 2":                                                   "additional properties 'replica' not allowed",
		"image: {pullPolicy: Sometimes}":                               "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
		"fullnameOverride: '123'":                                      "at '/fullnameOverride': '123' does not match pattern",
		"redis: {ulr: a}":                                              "at '/redis': additional properties 'ulr' not allowed",
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
		"debug: {service: true}":                                       "it needs adminToken.secretName",
		"serviceAccount: {name: a}":                                    "it needs serviceAccount.create=false",
		"autoscaling: {enabled: true, minReplicas: 11}":                "autoscaling.minReplicas is more than autoscaling.maxReplicas",
		"image: {repository: 'weir:v1'}":                               "at '/image/repository': 'weir:v1' does not match pattern",
		"rules: {files: {.api.yaml: ''}}":                              "at '/rules/files': additional properties '.api.yaml' not allowed",
		"rules: {files: {api.yaml: {}}}":                               "at '/rules/files/api.yaml': missing property 'domain'",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, rate_limit: {unit: minut, requests_per_unit: 5}}]}}}": "at '/rules/files/a.yaml/descriptors/0/rate_limit/unit': 'minut' does not match pattern",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: 9007199254740993}]}}}":                         "at '/rules/files/a.yaml/descriptors/0/value': got number, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: 01234}]}}}":                                    "at '/rules/files/a.yaml/descriptors/0/value': got number, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: 1.10}]}}}":                                     "at '/rules/files/a.yaml/descriptors/0/value': got number, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: off}]}}}":                                      "at '/rules/files/a.yaml/descriptors/0/value': got boolean, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, value: [a, 12345678901234567890]}]}}}":                "at '/rules/files/a.yaml/descriptors/0/value': got array, want null or string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{key: a, regex: 1.10}]}}}":                                     "at '/rules/files/a.yaml/descriptors/0/regex': got number, want string",
		"rules: {files: {a.yaml: {domain: a, descriptors: [{rate_limit: {name: 1, unlimited: true}}]}}}":                  "at '/rules/files/a.yaml/descriptors/0/rate_limit/name': got number, want null or string",
		"env: {REDIS_AUTH: 01234}":            "at '/env/REDIS_AUTH': got number, want string",
		"env: {OTEL_A: 12345678901234567890}": "at '/env/OTEL_A': maximum: got ",
		"redis: {url: 'redis:6379', authSecret: {name: a}}\nenv: {REDIS_AUTH_COMMAND: a}":                                   "REDIS_AUTH_COMMAND (env) and REDIS_AUTH_FILE (redis.authSecret) are both set, only one may be",
		"redis: {url: 'redis:6379', authSecret: {name: a}}\nextraEnv: [{name: REDIS_AUTH, value: a}]":                       "REDIS_AUTH_FILE (redis.authSecret) and REDIS_AUTH (extraEnv) are both set, only one may be",
		"redis: {urlSecret: {name: a}}\nextraEnv: [{name: REDIS_URL, value: a}]":                                            "REDIS_URL_FILE (redis.urlSecret) and REDIS_URL (extraEnv) are both set, only one may be",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_AUTH_FILE: /a, REDIS_AUTH_COMMAND: a}":                                     "REDIS_AUTH_COMMAND (env) and REDIS_AUTH_FILE (env) are both set, only one may be",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_SENTINEL_AUTH_FILE: /a, REDIS_SENTINEL_AUTH: a}":                           "REDIS_SENTINEL_AUTH_FILE (env) and REDIS_SENTINEL_AUTH (env) are both set, only one may be",
		"redis: {type: SENTINEL, url: 'redis:6379'}":                                                                        "REDIS_URL (redis.url) is not NAME,host:port,... (the name of the primary, then its sentinels), which REDIS_TYPE SENTINEL needs",
		"redis: {url: 'redis:6379'}\nenv: {REDIS_TYPE: sentinel}":                                                           "REDIS_URL (redis.url) is not NAME,host:port,...",
		"redis: {url: 'a,redis:6379'}":                                                                                      "REDIS_URL (redis.url) has several addresses, which needs REDIS_TYPE SENTINEL or CLUSTER",
		"env: {CONFIG_TYPE: grpc_xds_sotw}\nrules: {files: {a.yaml: ''}}":                                                   "rules.files has no effect with CONFIG_TYPE GRPC_XDS_SOTW, which takes the rules from a control plane, leave one of them out",
		"extraEnv: [{name: CONFIG_TYPE, value: GRPC_XDS_SOTW}]\nrules: {existingConfigMap: a}":                              "rules.existingConfigMap has no effect with CONFIG_TYPE GRPC_XDS_SOTW",
		"image: {digest: sha256:12}":                                                                                        "at '/image/digest': 'sha256:12' does not match pattern",
		"extraVolumes: [{name: a, emptyDir: {}, secret: {}}]":                                                               "at '/extraVolumes/0': maxProperties: got 3, want 2",
		"extraVolumes: [{name: a, empty: {}}]":                                                                              "at '/extraVolumes/0': additional properties 'empty' not allowed",
		"extraVolumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]":                                                  "extraVolumes has a twice",
		"extraVolumes: [{name: redis-url, emptyDir: {}}]\nredis: {urlSecret: {name: a}}":                                    "extraVolumes has redis-url, which the chart has already",
		"extraVolumeMounts: [{name: a}]":                                                                                    "at '/extraVolumeMounts/0': missing property 'mountPath'",
		"extraVolumeMounts: [{name: a, mountPath: /a}]":                                                                     "extraVolumeMounts has a, which extraVolumes does not have",
		"extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a/}]": "extraVolumeMounts has /a/, where something is mounted already",
		"extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /tls}]\ntls: {secretName: b}":    "extraVolumeMounts has /tls, where something is mounted already",
		"extraContainers: [{name: a, image: b, volumeMount: []}]":                                                           "at '/extraContainers/0': additional properties 'volumeMount' not allowed",
		"extraContainers: [{name: weir, image: b}]":                                                                         "extraContainers has weir, a name that is taken",
		"extraInitContainers: [{name: a, image: b}]\nextraContainers: [{name: a, image: b}]":                                "extraInitContainers has a, a name that is taken",
		"extraContainers: [{name: a, image: b, volumeMounts: [{name: c, mountPath: /c}]}]":                                  "extraContainers has a with volume c, which extraVolumes does not have",
		"resources: {limits: {memory: 256MB}}":                                                                              "at '/resources/limits/memory': '256MB' does not match pattern",
		"podLabels: {a b: c}":                                                                                               "at '/podLabels': additional properties 'a b' not allowed",
		"affinity: {nodeAfinity: {}}":                                                                                       "at '/affinity': additional properties 'nodeAfinity' not allowed",
		"networkPolicy: {clients: [{ipBlock: {}}]}":                                                                         "at '/networkPolicy/clients/0/ipBlock': missing property 'cidr'",
		"env: {LOG_FORMATT: json}":                                                                                          "env.LOG_FORMATT is no setting of Weir, other variables go into extraEnv",
		"env: {FAILURE_MODE: open}":                                                                                         "env.FAILURE_MODE is open; use error, allow, deny or local",
		"env: {DRAIN_DELAY: 5}":                                                                                             "DRAIN_DELAY is 5, which is no duration such as 5s",
		"env: {DRAIN_TIMEOUT: 1m}":                                                                                          "terminationGracePeriodSeconds is 30, it must be more than DRAIN_DELAY (10s) and DRAIN_TIMEOUT (1m) together",
		"terminationGracePeriodSeconds: 15":                                                                                 "terminationGracePeriodSeconds is 15, it must be more than DRAIN_DELAY (10s) and DRAIN_TIMEOUT (10s) together",
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
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
