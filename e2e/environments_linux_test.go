package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"weir/internal/testenv"
)

// pod stands for a Kubernetes pod with Weir, Envoy, Redis and an upstream at the addresses
// in the manifests.
type pod struct {
	*namespace
	t      *testing.T
	client *http.Client
}

// Addresses in a pod: podEnvoy is Envoy's listener, podUpstream is the upstream.
const (
	podEnvoy    = "127.0.0.1:8888"
	podUpstream = "127.0.0.1:8000"
)

// newPod creates a pod with an upstream.
func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{namespace: newNamespace(t), t: t}
	p.client = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: p.Dial}}
	upstream := &httptest.Server{Listener: p.Listen(t, podUpstream), Config: &http.Server{Handler: echo}}
	upstream.Start()
	t.Cleanup(upstream.Close)
	return p
}

// ControlPlane starts a control plane in the pod, at addr.
func (p *pod) ControlPlane(addr string, options ...grpc.ServerOption) *testenv.ControlPlane {
	p.t.Helper()
	return testenv.StartControlPlaneAt(p.t, addr, func(addr string) (net.Listener, error) { return p.Listen(p.t, addr), nil }, options...)
}

// redis starts a redis-server on its default port.
func (p *pod) redis() {
	p.t.Helper()
	cmd := exec.Command(testenv.Program(p.t, "redis-server"), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", p.t.TempDir())
	launch(p.t, cmd, func() error { return p.Start(cmd) })
}

// weir starts Weir as Kubernetes starts the image, with exactly the variables in env. hosts
// are names of this pod. files are mounted ConfigMaps and Secrets: the texts of files by
// directory and name. There are no other files, nothing is writable, and the user is nobody.
func (p *pod) weir(env []string, hosts string, files map[string]map[string]string, args ...string) *process {
	p.t.Helper()
	root := p.t.TempDir()
	testenv.OK(p.t, os.Mkdir(root+"/bin", 0o755))
	testenv.OK(p.t, os.Link(program(p.t), root+"/bin/ratelimit")) // a copy could not be executed while a child that another test forks has it open
	testenv.Write(p.t, root+"/etc/hosts", "127.0.0.1 "+hosts+"\n")
	for dir, texts := range files {
		dir = filepath.Join(root, dir)
		for name, text := range texts { // a link through ..data, which the kubelet switches to change all files at once
			testenv.Write(p.t, filepath.Join(dir, "..version", name), text)
			testenv.OK(p.t, os.Symlink("..data/"+name, filepath.Join(dir, name)))
		}
		testenv.OK(p.t, os.Symlink("..version", filepath.Join(dir, "..data")))
	}
	cmd := exec.Command("/bin/ratelimit", args...)
	cmd.Env = env
	w := launch(p.t, cmd, func() error { return p.StartContainer(cmd, root) })
	// Check in /proc that the user is nobody and the root directory is read-only.
	for file, want := range map[string]string{"status": "Uid:\t65534\t65534\t65534\t65534\n", "mountinfo": " / ro,"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", w.cmd.Process.Pid, file))
		if err != nil || !strings.Contains(string(text), want) {
			p.t.Fatalf("%s does not contain %q (error: %v):\n%s", file, want, err, text)
		}
	}
	return w
}

// envoy starts Envoy with a bootstrap.
func (p *pod) envoy(bootstrap map[string]any) *envoy {
	p.t.Helper()
	get(p.t, bootstrap, "static_resources", "listeners", 0)["address"] = address(p.t, podEnvoy)
	file := writeBootstrap(p.t, bootstrap)
	validateBootstrap(p.t, file)
	cmd := exec.Command(testenv.Envoy(p.t), "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn")
	cmd.Dir = p.t.TempDir()
	front := launch(p.t, cmd, func() error { return p.Start(cmd) })
	return &envoy{process: front, addr: podEnvoy, client: p.client}
}

// waitFor waits until a GET of url returns status.
func (p *pod) waitFor(status int, url string, headers ...string) {
	p.t.Helper()
	testenv.Eventually(p.t, func() error {
		a, err := exchange(p.client, http.MethodGet, url, "", headers...)
		if err == nil && a.status != status {
			err = fmt.Errorf("status %d, want %d: %s", a.status, status, a.body)
		}
		return err
	})
}

// envoyGatewayEnvironment is the environment of the container envoy-ratelimit that Envoy
// Gateway 1.9.1 starts with its defaults and a Redis at redis.redis.svc.
var envoyGatewayEnvironment = []string{
	"RUNTIME_ROOT=/data",
	"RUNTIME_SUBDIRECTORY=ratelimit",
	"RUNTIME_IGNOREDOTFILES=true",
	"RUNTIME_WATCH_ROOT=false",
	"LOG_LEVEL=info",
	"USE_STATSD=false",
	"CONFIG_TYPE=GRPC_XDS_SOTW",
	"CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001",
	"CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
	"GRPC_SERVER_USE_TLS=true",
	"GRPC_SERVER_TLS_CERT=/certs/tls.crt",
	"GRPC_SERVER_TLS_KEY=/certs/tls.key",
	"GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt",
	"CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
	"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt",
	"CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key",
	"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt",
	"FORCE_START_WITHOUT_INITIAL_CONFIG=true",
	"REDIS_SOCKET_TYPE=tcp",
	"REDIS_URL=redis.redis.svc:6379",
	"USE_PROMETHEUS=true",
	"PROMETHEUS_ADDR=:19001",
	"PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
}

// envoyGatewayResource contains the rules that Envoy Gateway generates from the
// BackendTrafficPolicy in examples/envoy-gateway, and from a policy with a rule for one
// value of a header. The levels are the route, the rule of the policy and each header that
// must match. If each value of a header has its own limit, the header's key has no value.
const envoyGatewayResource = `{
	"name": "default/gateway/http", "domain": "default/gateway/http",
	"descriptors": [{
		"key": "httproute/default/shop/rule/0", "value": "httproute/default/shop/rule/0",
		"descriptors": [
			{"key": "rule-0-match-0", "rate_limit": {"requests_per_unit": 3, "unit": "HOUR"}},
			{"key": "default/policy/rule/1", "value": "default/policy/rule/1", "descriptors": [
				{"key": "rule-1-match-0", "value": "rule-1-match-0", "rate_limit": {"requests_per_unit": 2, "unit": "HOUR"}}
			]}
		]
	}]
}`

// Weir replaces the rate limit service of Envoy Gateway. It has the same environment except
// for longer timeouts, the same certificates, user nobody and a read-only root. A control
// plane like Envoy Gateway's sends the rules, and Envoy has the configuration that Envoy
// Gateway generates.
func TestEnvoyGatewayEnvironmentServesEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	p := newPod(t)
	p.redis()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(t, "envoy-gateway")
	pair := testenv.Must(tls.X509KeyPair(cert, key))(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.PEM())
	plane := p.ControlPlane("127.0.0.1:18001", grpc.Creds(credentials.NewTLS(&tls.Config{ // it requires client certificates
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	i := newIdentity(t, authority, authority.PEM(), "*.envoy-gateway-system")
	certs := map[string]string{}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		certs[name] = readDocument(t, i.file(name))
	}
	p.weir(slices.Concat(envoyGatewayEnvironment, patientWithRedis), "envoy-gateway redis.redis.svc", map[string]map[string]string{"/certs": certs})
	e := p.envoy(envoyGatewayBootstrap(t, i))
	p.waitFor(500, "http://"+podEnvoy+"/", "x-user-id: alice") // no rules, and failure_mode_deny
	plane.SetFor("envoy-ratelimit", "1", envoyGatewayResource)
	p.waitFor(200, "http://127.0.0.1:8080/healthcheck")
	p.waitFor(200, "http://127.0.0.1:19001/metrics")
	p.waitFor(200, "http://"+podEnvoy+"/", "x-user-id: bob")

	awayFromEnd(time.Hour)
	loop := exec.Command(testenv.Shell(t), "-c", documentedBlock(t, "examples/envoy-gateway/README.md", "for i in"))
	loop.Env = append(os.Environ(), "GATEWAY_HOST="+podEnvoy)
	ran := launch(t, loop, func() error { return p.Start(loop) })
	ran.wantExit(0)
	var statuses []string
	for line := range strings.Lines(ran.output.String()) {
		line = strings.TrimSpace(line)
		if status, is := strings.CutPrefix(line, "HTTP/1.1 "); is {
			statuses = append(statuses, status[:3])
		} else if limit, is := strings.CutPrefix(line, "x-ratelimit-limit: "); is && limit != "3, 3;w=3600" {
			t.Errorf("x-ratelimit-limit: %s", limit)
		}
	}
	if want := []string{"200", "200", "200", "429"}; !slices.Equal(statuses, want) || !strings.Contains(ran.output.String(), "x-ratelimit-remaining: 2") {
		t.Errorf("statuses %q, want %q in:\n%s", statuses, want, ran.output.String())
	}
	e.wantLimits(
		asked{"/", []string{"x-org-id: acme"}, "2, 2;w=3600", times(2, 200, 429)},
		asked{"/", []string{"x-org-id: globex"}, "", times(4, 200)},
	)
	denials := testenv.Must(exchange(p.client, http.MethodGet, "http://127.0.0.1:6070/denials", ""))(t)
	if ids := regexp.MustCompile(`"request_id": "[0-9a-f-]{36}"`).FindAllString(denials.body, -1); len(ids) < 2 {
		t.Errorf("%d request IDs in %s", len(ids), denials.body)
	}
}

// envoyGatewayBootstrap returns the bootstrap of examples/envoy with the filter, route and
// cluster that Envoy Gateway generates, and the example's patch of the filter, except that the
// filter has the fields of patient and the certificate comes from files.
func envoyGatewayBootstrap(t *testing.T, i identity) map[string]any {
	t.Helper()
	doc := gateway{
		upstream:  podUpstream,
		cluster:   i.cluster(""),
		rateLimit: "{domain: default/gateway/http, disable_x_envoy_ratelimited_header: true, enable_retry_after_header: false}",
		virtualHost: ratelimitPerRoute + `
        domain: default/gateway/http
        rate_limits:
          - actions:
              - generic_key: &route {descriptor_key: httproute/default/shop/rule/0, descriptor_value: httproute/default/shop/rule/0}
              - request_headers: {descriptor_key: rule-0-match-0, header_name: x-user-id}
          - actions:
              - generic_key: *route
              - generic_key: {descriptor_key: default/policy/rule/1, descriptor_value: default/policy/rule/1}
              - header_value_match:
                  descriptor_key: rule-1-match-0
                  descriptor_value: rule-1-match-0
                  expect_match: true
                  headers: [{name: x-org-id, string_match: {exact: acme}}]
`,
	}.bootstrap(t, "127.0.0.1:8081")
	service := get(t, connectionManager(t, doc), "http_filters", 0, "typed_config", "rate_limit_service", "grpc_service")
	delete(service, "initial_metadata")
	for _, manifest := range manifests(t, "examples/envoy-gateway/gateway.yaml") {
		if manifest["kind"] == "EnvoyPatchPolicy" {
			add := get(t, manifest, "spec", "jsonPatches", 0, "operation")
			service[fmt.Sprint(add["path"])] = add["value"]
		}
	}
	return doc
}

// istioEnvironment is the environment of the Deployment in Istio's
// samples/ratelimit/rate-limit-service.yaml.
var istioEnvironment = []string{
	"LOG_LEVEL=debug",
	"REDIS_SOCKET_TYPE=tcp",
	"REDIS_URL=redis:6379",
	"USE_STATSD=false",
	"RUNTIME_ROOT=/data",
	"RUNTIME_SUBDIRECTORY=ratelimit",
	"RUNTIME_WATCH_ROOT=false",
	"RUNTIME_IGNOREDOTFILES=true",
	"HOST=::",
	"GRPC_HOST=::",
}

// Weir replaces the image in Istio's Deployment. It has the same environment except for longer
// timeouts, the same mounts, user nobody and a read-only root. Envoy has the configuration
// that Istio generates from the EnvoyFilters.
func TestIstioEnvironmentServesEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	var example []string
	for _, doc := range manifests(t, "examples/istio/ratelimit.yaml") {
		if doc["kind"] == "Deployment" && get(t, doc, "metadata")["name"] == "ratelimit" {
			for _, v := range get(t, doc, "spec", "template", "spec", "containers", 0)["env"].([]any) {
				example = append(example, fmt.Sprint(get(t, v)["name"], "=", get(t, v)["value"]))
			}
		}
	}
	testenv.EqualLists(t, example, istioEnvironment, "environment of the example")
	rules := readDocument(t, "examples/istio/rules/config.yaml")
	p := newPod(t)
	p.redis()
	p.weir(slices.Concat(istioEnvironment, patientWithRedis), "redis", map[string]map[string]string{"/data/ratelimit/config": {"config.yaml": rules}})
	p.waitFor(200, "http://127.0.0.1:8080/healthcheck")
	p.waitFor(200, "http://[::1]:8080/healthcheck")
	e := p.envoy(istioBootstrap(t, "examples/istio/gateway.yaml", "127.0.0.1:8081", podUpstream))
	p.waitFor(200, "http://"+podEnvoy+"/ready")

	awayFromEnd(time.Minute)
	e.want("/productpage", "x-user: alice", 200, 429)
	e.want("/login", "x-user: alice", 200, 200)
}
