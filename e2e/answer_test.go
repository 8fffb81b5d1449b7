package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// fileLog is a format for the access log of a connection manager: the file, and further fields.
const fileLog = `{name: envoy.access_loggers.file, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: %q%s}}`

// The headers in Weir's answer reach the client, and its dynamic metadata reaches Envoy's
// access log. Amounts have 32 bits in Envoy's protocol, so a large amount saturates in
// Envoy's headers, but not in Weir's.
func TestHeadersAndMetadataOfWeir(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	s := gateway{
		virtualHost: `
rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}]
routes: [{match: {prefix: /}, route: {cluster: echo}}]
`,
		manager: accessLog(log, "%RESPONSE_CODE% %DYNAMIC_METADATA(envoy.filters.http.ratelimit)%"),
	}.start(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
    metadata: {tier: bronze, weight: 1.5}
  - key: user
    value: root
    metadata: {tier: gold}
    rate_limit: {unit: week, unit_multiplier: 2, requests_per_unit: 7}
  - {key: user, regex: "large-v[0-9]+", rate_limit: {unit: day, requests_per_unit: 1125899906842624}}
  - {key: user, value: [small, tiny], share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}
`, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Whole-Again", "RESPONSE_DYNAMIC_METADATA=true")

	// of returns the metadata of an admitted user.
	of := func(user, rule, remaining, more string) string {
		return fmt.Sprintf(`{"domain": "api", "descriptors": [{"entries": ["user=%s"], "code": "OK", "rule": "%s", "remaining": %s}]%s}`, user, rule, remaining, more)
	}
	denied := func(user, rule string) string {
		return fmt.Sprintf(`{"domain": "api", "descriptors": [{"entries": ["user=%s"], "code": "OVER_LIMIT", "rule": "%[2]s", "remaining": 0}],
			"deniedBy": {"rule": "%[2]s", "limit": "day"}}`, user, rule)
	}
	const bronze = `, "metadata": {"tier": "bronze", "weight": 1.5}`
	requests := []struct {
		user             string
		status           int
		limit, remaining string // in the headers of Weir
		policy           string // Envoy's header x-ratelimit-limit
		logged           string // the metadata in the access log
	}{
		{"alice", 200, "2", "1", "2, 2;w=86400", of("alice", "user", "1", bronze)},
		{"root", 200, "7", "6", "7, 7;w=1209600", of("root", "user=root", "6", `, "metadata": {"tier": "gold"}`)},
		{"alice", 200, "2", "0", "2, 2;w=86400", of("alice", "user", "0", bronze)},
		{"alice", 429, "2", "0", "2, 2;w=86400", denied("alice", "user")},
		{"large-v2", 200, "1125899906842624", "1125899906842623", "4294967295, 4294967295;w=86400", of("large-v2", "user=~large-v[0-9]+", "1125899906842623", "")},
		{"large-v2", 200, "1125899906842624", "1125899906842622", "4294967295, 4294967295;w=86400", of("large-v2", "user=~large-v[0-9]+", "1125899906842622", "")},
		{"xlarge-v2", 200, "2", "1", "2, 2;w=86400", of("xlarge-v2", "user", "1", bronze)}, // a regular expression must match the full value
		{"small", 200, "2", "1", "2, 2;w=86400", of("small", "user=[small+1]", "1", "")},
		{"tiny", 200, "2", "0", "2, 2;w=86400", of("tiny", "user=[small+1]", "0", "")}, // one counter for the list
		{"small", 429, "2", "0", "2, 2;w=86400", denied("small", "user=[small+1]")},
	}
	for i, want := range requests {
		a := s.ask("/", by(want.user)...)
		limit, remaining, policy := a.header.Get("ratelimit-limit"), a.header.Get("ratelimit-remaining"), a.header.Get("x-ratelimit-limit")
		if a.status != want.status || limit != want.limit || remaining != want.remaining || policy != want.policy {
			t.Errorf("request %d: status %d, limit %s, remaining %s, of Envoy %q; want %+v", i+1, a.status, limit, remaining, policy, want)
		}
		reset := a.header.Get("x-whole-again")
		if seconds, err := strconv.Atoi(reset); err != nil || seconds < 1 {
			t.Errorf("request %d: the limit is reset in %q seconds", i+1, reset)
		}
		if got := a.header.Get("retry-after"); want.status == 429 && got != reset {
			t.Errorf("request %d: retry-after is %q, but the limit is reset in %q seconds", i+1, got, reset)
		}
	}
	for i, line := range linesOf(t, log, len(requests)) {
		status, metadata, _ := strings.Cut(line, " ")
		var got, want any
		testenv.OK(t, json.Unmarshal([]byte(metadata), &got))
		testenv.OK(t, json.Unmarshal([]byte(requests[i].logged), &want))
		if status != strconv.Itoa(requests[i].status) || !reflect.DeepEqual(got, want) {
			t.Errorf("request %d: Envoy logged %s\nwant %d %s", i+1, line, requests[i].status, requests[i].logged)
		}
	}
}

// Envoy's access log says which limit denied a request, in the format of docs/rules.md. A request
// over a limit in shadow mode reaches the upstream with the header that docs/rules.md adds.
func TestReasonInTheAccessLog(t *testing.T) {
	t.Parallel()
	document := readDocument(t, "docs/rules.md")
	reason := regexp.MustCompile(`%DYNAMIC_METADATA\(\S+:deniedBy\)%`).FindString(document)
	header := regexp.MustCompile("`(request_headers_to_add: .*)`").FindStringSubmatch(document)
	if reason == "" || header == nil {
		t.Fatal("docs/rules.md does not say how to log a reason, or how to send a limit to the upstream")
	}
	log := filepath.Join(t.TempDir(), "access.log")
	s := gateway{
		manager:     accessLog(log, "%REQ(X-REQUEST-ID)% %RESPONSE_CODE% "+reason),
		upstream:    serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("x-over-limit")) })),
		virtualHost: "rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}]\nroutes: [{match: {prefix: /}, route: {cluster: echo}, " + header[1] + "}]",
	}.start(t, `
domain: api
descriptors:
  - key: user
    rate_limit: [{unit: day, requests_per_unit: 2}, {name: soft, unit: day, requests_per_unit: 1, shadow_mode: true}]
`, "RESPONSE_DYNAMIC_METADATA=true")
	for i, want := range []answer{{status: 200}, {status: 200, body: "soft"}, {status: 429}} {
		if a := s.ask("/", "x-user: alice"); a.status != want.status || a.body != want.body {
			t.Errorf("request %d: status %d, the upstream got %q; want %d, %q", i+1, a.status, a.body, want.status, want.body)
		}
	}
	lines := linesOf(t, log, 3)
	for i, want := range []string{"200 -", "200 -", `429 {"limit":"day","rule":"user"}`} {
		_, got, _ := strings.Cut(lines[i], " ")
		testenv.Equal(t, got, want, "what Envoy logged")
	}
	s.weir.wantRequestIDs(log)
}

// accessLog returns the field of a connection manager that writes lines of a format to a file.
func accessLog(file, format string) string {
	return "access_log: [" + fmt.Sprintf(fileLog, file, fmt.Sprintf(", log_format: {text_format_source: {inline_string: %q}}", format+"\n")) + "]"
}

// wantRequestIDs checks that the requests that `weir denials` shows, at least one, have IDs in
// Envoy's access log, whose lines begin with the ID.
func (w *weir) wantRequestIDs(log string) {
	w.t.Helper()
	shown := operator{w.t, w.t.TempDir(), w.debug}.shell("weir denials")
	rows := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d .*$`).FindAllString(shown, -1)
	if len(rows) == 0 {
		w.t.Errorf("no request was denied:\n%s", shown)
	}
	for _, row := range rows {
		id := regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(row)
		testenv.Eventually(w.t, func() error {
			logged, err := os.ReadFile(log)
			if err == nil && (id == "" || !strings.Contains("\n"+string(logged), "\n"+id+" ")) {
				err = fmt.Errorf("%s has no request ID of Envoy's access log:\n%s", row, logged)
			}
			return err
		})
	}
}

// linesOf waits until a file has count lines and returns them.
func linesOf(t *testing.T, file string, count int) (lines []string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(file)
		lines = strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if err == nil && (len(data) == 0 || len(lines) != count) {
			err = fmt.Errorf("%s: %d lines, want %d", file, len(lines), count)
		}
		return err
	})
	return lines
}

// A gRPC client that exceeds a limit gets the status RESOURCE_EXHAUSTED.
func TestGRPCClientsGetResourceExhausted(t *testing.T) {
	t.Parallel()
	upstream := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(upstream, health.NewServer())
	s := gateway{
		rateLimit: "rate_limited_as_resource_exhausted: true",
		virtualHost: `
routes:
  - match: {prefix: /, grpc: {}}
    route:
      cluster: echo
      rate_limits:
        - actions:
            - request_headers: {header_name: ":path", descriptor_key: method}
            - request_headers: {header_name: x-user, descriptor_key: user}
`,
		http2:    true,
		upstream: testenv.ServeGRPC(t, upstream),
	}.start(t, `
domain: api
descriptors:
  - key: method
    value: /grpc.health.v1.Health/Check
    descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]
`)
	client := grpc_health_v1.NewHealthClient(connection(t, "passthrough:///"+s.addr))
	for _, user := range []string{"alice", "bob"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user", user)
		for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted, codes.ResourceExhausted} {
			_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			testenv.Equal(t, status.Code(err), want, "call %d of %s (error: %v)", i+1, user, err)
		}
	}
}

// TestHeadersOfEnvoy sends the largest tracing headers that Envoy takes from a client through
// Envoy. Weir's limit on headers admits them. A denial contains the request ID that Envoy sends.
func TestHeadersOfEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	w := startWeir(t, writeRules(t, userRules(1)))
	doc := gateway{manager: `
tracing:
  random_sampling: {value: 100}
  provider:
    name: envoy.tracers.opentelemetry
    typed_config:
      "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
      service_name: gateway
      http_service: {http_uri: {uri: "http://collector/v1/traces", cluster: echo, timeout: 1s}}
`}.bootstrap(t, w.grpc)
	calls := get(t, connectionManager(t, doc), "http_filters", 0, "typed_config", "rate_limit_service", "grpc_service")
	parse(t, `initial_metadata: [{key: baggage, value: "%REQ(baggage)%"}, {key: x-request-id, value: "%STREAM_ID%"}]`, &calls)
	e := runEnvoy(t, doc)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		status := e.ask("/", "x-user: alice", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"tracestate: vendor="+strings.Repeat("s", 50_000), "baggage: tenant="+strings.Repeat("b", 8185)).status
		testenv.Equal(t, status, want, "status")
	}
	waitForText(t, "http://"+w.debug+"/denials", `"request_id": "[0-9a-f-]{36}"`)
}

// The cost of an answer is known only afterwards: a language model reports the tokens that
// it used in the answer. So Envoy peeks before the request, with 0 hits, and charges when
// the stream is done. It takes the number of tokens from a header of the answer, or from a
// filter that reads the body.
const tokenRoutes = `
routes:
  - match: {path: /body}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": &perRoute type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - &peek {actions: &user [{request_headers: {header_name: x-user, descriptor_key: user}}], hits_addend: {number: 0}}
          - {actions: *user, hits_addend: {format: "%DYNAMIC_METADATA(model:tokens)%"}, apply_on_stream_done: true}
  - match: {path: /header}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": *perRoute
        rate_limits:
          - *peek
          - {actions: *user, hits_addend: {format: "%RESP(X-TOKENS)%"}, apply_on_stream_done: true}
`

// tokenFilters contains a filter that reads the number of tokens from the body of an answer.
const tokenFilters = `
- name: envoy.filters.http.json_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.json_to_metadata.v3.JsonToMetadata
    response_rules:
      rules:
        - selectors: [{key: usage}, {key: total_tokens}]
          on_present: {metadata_namespace: model, key: tokens}
`

// model is an upstream whose answers report the number of tokens in the query, by default
// max_tokens of the request. If the query contains hold, the answer stops in the middle until
// release is closed. With stream, the answer is an event; with refuse, it is an error; with
// die, it breaks off in the middle.
type model struct {
	addr    string
	asked   atomic.Int32 // number of requests
	left    atomic.Int32 // number of requests whose client left during hold
	release chan struct{}
}

func startModel(t *testing.T) *model {
	t.Helper()
	m := &model{release: make(chan struct{})}
	m.addr = serve(t, m)
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.asked.Add(1)
	query := r.URL.Query()
	tokens := query.Get("tokens")
	if tokens == "" {
		var request map[string]int
		_ = json.NewDecoder(r.Body).Decode(&request)
		tokens = fmt.Sprint(request["max_tokens"])
	}
	if r.URL.Path != "/body" {
		w.Header().Set("x-tokens", tokens)
	}
	switch {
	case query.Has("refuse"):
		http.Error(w, "no", http.StatusInternalServerError)
		return
	case query.Has("stream"):
		w.Header().Set("content-type", "text/event-stream")
		fmt.Fprint(w, "data: ")
	default:
		w.Header().Set("content-type", "application/json")
	}
	fmt.Fprint(w, `{"text": "How do you do", `)
	if query.Has("hold") || query.Has("die") {
		_ = http.NewResponseController(w).Flush() // fails only if Envoy has disconnected
	}
	if query.Has("die") {
		panic(http.ErrAbortHandler)
	}
	if query.Has("hold") {
		select {
		case <-m.release:
		case <-r.Context().Done():
			m.left.Add(1)
		}
	}
	fmt.Fprintf(w, `"usage": {"total_tokens": %s}}`+"\n\n", tokens)
}

func TestTokensAreChargedAfterTheAnswer(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := gateway{filters: tokenFilters, virtualHost: tokenRoutes, upstream: m.addr}.start(t, userRules(100))
	for _, path := range []string{"/body", "/header"} {
		user := "reader of the " + path[1:]
		asked := m.asked.Load()
		s.want(path+"?tokens=60", "x-user: "+user, 200)
		s.weir.waitForRemaining(40, "api", "user", user)
		s.want(path+"?tokens=70", "x-user: "+user, 200) // admitted, because the cost is not known yet
		s.weir.waitForRemaining(0, "api", "user", user)
		s.want(path+"?tokens=1", "x-user: "+user, 429, 429)
		testenv.Equal(t, m.asked.Load()-asked, 2, "%s: requests at the model, which no denied request reaches", path)
	}
	s.want("/body?tokens=1", "x-user: somebody else", 200)

	// Tokens beyond the limit are charged, too.
	replaceRules(t, s.rules, userRules(200))
	for _, user := range []string{"reader of the body", "reader of the header"} {
		s.weir.waitForRemaining(70, "api", "user", user)
	}
}

// A charge is completed even if the client leaves in the middle of the answer, or if Envoy
// no longer waits for the result of the charge.
func TestTokensAreChargedWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := gateway{virtualHost: tokenRoutes, rateLimit: "timeout: 5s", upstream: m.addr}.start(t, userRules(100))
	s.abandon("/header?tokens=60&hold", "leaving", func(answer *bufio.Reader) {
		if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
			t.Errorf("got %q, error %v", line, err)
		}
	})
	s.weir.waitForRemaining(40, "api", "user", "leaving")

	answers := s.askInBackground("/header?tokens=60&hold", "alice")
	testenv.Until(t, "the model is asked", func() bool { return m.asked.Load() > 1 })
	s.redis.Pause()
	close(m.release)
	if a := <-answers; a.status != 200 || !strings.Contains(a.body, "usage") {
		t.Errorf("the model answered %d %s", a.status, a.body)
	}
	s.weir.waitForMetric(`ratelimit_service_should_rate_limit_error{err_type="redis_error"} 1`)
	s.redis.Resume()
	s.weir.waitForRemaining(40, "api", "user", "alice")
}

// Envoy's planned filter for budgets of language models peeks with 0 hits before a request, charges
// once after it, and has budgets of a month beyond 32 bits.
func TestBudgetFilter(t *testing.T) {
	t.Parallel()
	s := gateway{virtualHost: tokenRoutes, upstream: startModel(t).addr}.start(t,
		"domain: api\ndescriptors: [{key: user, rate_limit: {unit: month, requests_per_unit: 5000000000, algorithm: calendar}}]\n")
	for n := range 5 {
		s.want("/header?tokens=1000000000", "x-user: alice", 200) // Envoy charges no more at once
		testenv.Until(t, "the tokens are charged", func() bool {
			counters := testenv.Must(exchange(client, http.MethodPost, "http://"+s.weir.debug+"/peek", `{"domain":"api","entries":[{"key":"user","value":"alice"}]}`))(t)
			return strings.Contains(counters.body, fmt.Sprintf(`"used": %d000000000`, n+1))
		})
	}
	s.want("/header?tokens=1", "x-user: alice", 429)
}
