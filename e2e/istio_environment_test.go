package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// istioEnvironment is that of the Deployment in Istio's
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

func TestIstioExampleHasTheEnvironmentOfIstio(t *testing.T) {
	t.Parallel()
	if got := environment(t, "examples/istio/ratelimit.yaml", "ratelimit"); !slices.Equal(got, istioEnvironment) {
		t.Errorf("got %q, want %q", got, istioEnvironment)
	}
}

// Istio's Deployment with another image: its environment and nothing else but
// patience, its mounts, nobody as user, a read-only root. Before it, an Envoy with
// what Istio makes of the EnvoyFilters.
func TestIstioEnvironmentServesEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	rules := readDocument(t, "examples/istio/rules/config.yaml")
	p := newPod(t)
	p.redis()
	p.weir(slices.Concat(istioEnvironment, patientWithRedis), "redis", map[string]map[string]string{"/data/ratelimit/config": {"config.yaml": rules}})
	p.waitFor(200, "http://127.0.0.1:8080/healthcheck")
	p.waitFor(200, "http://[::1]:8080/healthcheck")
	p.envoy(istioBootstrap(t, "examples/istio/gateway.yaml", "127.0.0.1:8081", podUpstream))
	p.waitFor(200, "http://"+podEnvoy+"/ready")

	awayFromEnd(time.Minute)
	p.want("/productpage", 200, 429)
	p.want("/login", 200, 200)
}

// The loop of the example's README, through an Envoy with the filters of the gateway.
func TestIstioReadme(t *testing.T) {
	t.Parallel()
	shell := testenv.Shell(t)
	w := startWeir(t, "examples/istio/rules")
	e := runEnvoy(t, istioBootstrap(t, "examples/istio/gateway.yaml", w.grpc, startUpstream(t)))
	awayFromEnd(time.Minute)
	if got := output(t, shell, "-c", "GATEWAY_URL="+e.addr+"\n"+documentedBlock(t, "examples/istio/README.md", "for i in")); got != "200\n429\n" {
		t.Errorf("printed:\n%s", got)
	}
}

// The filters for a sidecar, in an Envoy like one.
func TestIstioSidecar(t *testing.T) {
	t.Parallel()
	w := startWeir(t, "examples/istio/rules")
	doc := istioBootstrap(t, "examples/istio/sidecar.yaml", w.grpc, startUpstream(t))
	validateBootstrap(t, writeBootstrap(t, doc))
	e := runEnvoy(t, doc)
	awayFromEnd(time.Minute)
	e.want("/productpage", "x-user: alice", 200, 429)
	e.want("/login", "x-user: alice", 200, 200)
}

// istioBootstrap is the bootstrap of examples/envoy without its limits, but
// with what Istio adds for Weir's service and for the EnvoyFilters in a file. The
// filter is patient.
func istioBootstrap(t *testing.T, file, weirAddr, upstreamAddr string) map[string]any {
	t.Helper()
	doc := gateway{upstream: upstreamAddr}.bootstrap(t, weirAddr)
	setAddr(t, get(t, doc, "static_resources", "listeners", 0), podEnvoy)
	cluster := get(t, doc, "static_resources", "clusters", 0)
	cluster["name"] = "outbound|8081||ratelimit.default.svc.cluster.local"
	get(t, cluster, "load_assignment")["cluster_name"] = cluster["name"]

	manager := connectionManager(t, doc)
	manager["http_filters"] = manager["http_filters"].([]any)[1:]
	host := get(t, manager, "route_config", "virtual_hosts", 0)
	host["name"] = "inbound|http|9080"
	host["routes"] = []any{map[string]any{"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "echo"}}}
	delete(host, "rate_limits")
	for _, filter := range manifests(t, file) {
		for _, patch := range get(t, filter, "spec")["configPatches"].([]any) {
			applyPatch(t, manager, host, patch.(map[string]any))
		}
	}
	maps.Copy(get(t, manager, "http_filters", 0, "typed_config"), patient)
	return doc
}

// applyPatch does with a patch of an EnvoyFilter what Istio does.
func applyPatch(t *testing.T, manager, host, patch map[string]any) {
	t.Helper()
	value := get(t, patch, "patch", "value")
	switch operation := get(t, patch, "patch")["operation"]; {
	case patch["applyTo"] == "HTTP_FILTER" && operation == "INSERT_BEFORE":
		next := get(t, patch, "match", "listener", "filterChain", "filter", "subFilter")["name"]
		filters := manager["http_filters"].([]any)
		at := slices.IndexFunc(filters, func(f any) bool { return f.(map[string]any)["name"] == next })
		if at < 0 {
			t.Fatalf("there is no filter %v", next)
		}
		manager["http_filters"] = slices.Insert(filters, at, any(value))
	case patch["applyTo"] == "VIRTUAL_HOST" && operation == "MERGE":
		name := get(t, patch, "match", "routeConfiguration", "vhost")["name"]
		if name != "" && name != host["name"] {
			t.Fatalf("there is no virtual host %v", name)
		}
		for field, v := range value {
			host[field] = v
		}
	default:
		t.Fatalf("this test does not know how Istio applies %v to %v", operation, patch["applyTo"])
	}
}

// manifests reads the documents of a YAML file of the repository.
func manifests(t *testing.T, file string) []map[string]any {
	t.Helper()
	var docs []map[string]any
	for text := range strings.SplitSeq(readDocument(t, file), "\n---\n") {
		var doc map[string]any
		parse(t, text, &doc)
		docs = append(docs, doc)
	}
	return docs
}

// environment reads the variables of the first container of a Deployment, each
// NAME=value.
func environment(t *testing.T, file, deployment string) []string {
	t.Helper()
	for _, doc := range manifests(t, file) {
		if doc["kind"] != "Deployment" || get(t, doc, "metadata")["name"] != deployment {
			continue
		}
		var env []string
		variables, _ := get(t, doc, "spec", "template", "spec", "containers", 0)["env"].([]any)
		for _, v := range variables {
			v := v.(map[string]any)
			env = append(env, v["name"].(string)+"="+v["value"].(string))
		}
		return env
	}
	t.Fatalf("%s has no Deployment %s", file, deployment)
	return nil
}
