package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/testenv"
)

// What an answer costs is known only afterwards: a language model tells with it
// how many tokens it took. So Envoy peeks before the request, with no hits, and
// charges when the stream is done, with what a header of the answer says, or
// with what a filter has found in its body.
const tokenRoutes = `
routes:
  - match: {path: /body}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            hits_addend: {number: 0}
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            hits_addend: {format: "%DYNAMIC_METADATA(model:tokens)%"}
            apply_on_stream_done: true
  - match: {path: /header}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            hits_addend: {number: 0}
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            hits_addend: {format: "%RESP(X-TOKENS)%"}
            apply_on_stream_done: true
  - match: {path: /reserved}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            hits_addend: {number: 50}
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            hits_addend: {number: 50, is_negative_hits: true}
            apply_on_stream_done: true
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            hits_addend: {format: "%RESP(X-TOKENS)%"}
            apply_on_stream_done: true
`

// tokenFilters find the tokens in the body of an answer.
const tokenFilters = `
- name: envoy.filters.http.json_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.json_to_metadata.v3.JsonToMetadata
    response_rules:
      rules:
        - selectors: [{key: usage}, {key: total_tokens}]
          on_present: {metadata_namespace: model, key: tokens}
`

// tokenRules gives every user so many tokens a day.
func tokenRules(amount int) string {
	return fmt.Sprintf("domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: %d}}]\n", amount)
}

// model is an upstream whose answers take as many tokens as the query says. With
// hold in the query it answers only in part until it is released.
type model struct {
	addr    string
	asked   atomic.Int32
	release chan struct{}
}

func startModel(t *testing.T) *model {
	t.Helper()
	m := &model{release: make(chan struct{})}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	m.addr = s.Listener.Addr().String()
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.asked.Add(1)
	query := r.URL.Query()
	if r.URL.Path != "/body" {
		w.Header().Set("x-tokens", query.Get("tokens"))
	}
	w.Header().Set("content-type", "application/json")
	fmt.Fprint(w, `{"text": "How do you do", `)
	if query.Has("hold") {
		_ = http.NewResponseController(w).Flush() // fails only if Envoy has gone
		select {
		case <-m.release:
		case <-r.Context().Done():
		}
	}
	fmt.Fprintf(w, `"usage": {"total_tokens": %s}}`, query.Get("tokens"))
}

func TestTokensAreChargedAfterTheAnswer(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := startGateway(t, gateway{filters: tokenFilters, virtualHost: tokenRoutes}, m.addr, tokenRules(100))
	for _, path := range []string{"/body", "/header"} {
		user := "reader of the " + path[1:]
		asked := m.asked.Load()
		s.want(path+"?tokens=60", "x-user: "+user, 200)
		s.weir.waitForRemaining(user, 40)
		s.want(path+"?tokens=70", "x-user: "+user, 200) // how many it takes, nobody can know
		s.weir.waitForRemaining(user, 0)
		s.want(path+"?tokens=1", "x-user: "+user, 429, 429)
		if got := m.asked.Load() - asked; got != 2 {
			t.Errorf("%s: the model was asked %d times, want 2: a denied request does not reach it", path, got)
		}
	}
	s.want("/body?tokens=1", "x-user: somebody else", 200)

	// All that was taken is charged, not just what fitted.
	replaceRules(t, s.rules, tokenRules(200))
	for _, user := range []string{"reader of the body", "reader of the header"} {
		s.weir.waitForRemaining(user, 70)
	}
}

// Of a quota of two, which is peeked at before and charged after, the reference admits
// three requests, and Weir does where it is asked for the counting of the reference.
func TestPeeksAtAUsedUpQuota(t *testing.T) {
	t.Parallel()
	for setting, statuses := range map[string][]int{"": {200, 200, 429}, "false": {200, 200, 200, 429}} {
		t.Run("setting "+setting, func(t *testing.T) {
			t.Parallel()
			s := startGateway(t, gateway{virtualHost: tokenRoutes}, startModel(t).addr, tokenRules(2), "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT="+setting)
			for i, status := range statuses {
				s.want("/header?tokens=1", "x-user: alice", status)
				if status == 200 {
					testenv.Eventually(t, func() error {
						return s.weir.hasMetric(fmt.Sprintf(`ratelimit_service_rate_limit_total_hits{domain="api",key1="user",key2=""} %d`, i+1))
					})
				}
			}
		})
	}
}

func TestTokensAreChargedWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	s := startGateway(t, gateway{virtualHost: tokenRoutes}, startModel(t).addr, tokenRules(100))
	s.leave("/header?tokens=60&hold", "alice")
	s.weir.waitForRemaining("alice", 40)
}

// Who would rather not let many requests in before the first is charged
// reserves an amount, and gives it back when it is known what the answer took.
func TestReservedTokensAreGivenBack(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := startGateway(t, gateway{virtualHost: tokenRoutes}, m.addr, tokenRules(100))
	answers := s.askInBackground("/reserved?tokens=20&hold", "alice")
	s.weir.waitForRemaining("alice", 50)
	close(m.release)
	if a := <-answers; a.status != 200 {
		t.Errorf("status %d, want 200", a.status)
	}
	s.weir.waitForRemaining("alice", 80)
}

// Envoy does not wait for the outcome of a charge longer than its timeout. Weir
// has taken the charge by then, and completes it.
func TestTokensAreChargedWhenEnvoyNoLongerWaits(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := startGateway(t, gateway{virtualHost: tokenRoutes, rateLimit: "timeout: 10s"}, m.addr, tokenRules(100))
	answers := s.askInBackground("/header?tokens=60&hold", "alice")
	testenv.Eventually(t, func() error {
		if m.asked.Load() == 0 {
			return errors.New("it has not been asked")
		}
		return nil
	})

	redisCommand(t, s.redis, "CLIENT PAUSE 60000 WRITE")
	close(m.release)
	if a := <-answers; a.status != 200 || !strings.Contains(a.body, "usage") {
		t.Errorf("the model answered %d %s", a.status, a.body)
	}
	testenv.Eventually(t, func() error {
		return s.weir.hasMetric(`ratelimit_service_should_rate_limit_error{err_type="redis_error"} 1`)
	})
	redisCommand(t, s.redis, "CLIENT UNPAUSE")
	s.weir.waitForRemaining("alice", 40)
}

// leave asks for path, and goes away in the middle of the answer.
func (e *envoy) leave(path, user string) {
	e.t.Helper()
	req := testenv.Must(http.NewRequest(http.MethodGet, "http://"+e.addr+path, nil))(e.t)
	req.Header.Set("x-user", user)
	resp := testenv.Must(client.Do(req))(e.t)
	if resp.StatusCode != http.StatusOK {
		e.t.Errorf("asking Envoy for %s: status %d, want 200", path, resp.StatusCode)
	}
	resp.Body.Close() // and with it the connection, since the body is not at its end
}

// waitForRemaining waits until a user may make exactly so many requests more.
func (w *weir) waitForRemaining(user string, want uint32) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		got, err := w.peek("user", user)
		if err == nil && got != want {
			err = fmt.Errorf("%d left, want %d", got, want)
		}
		return err
	})
}
