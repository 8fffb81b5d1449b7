package e2e

import (
	"bufio"
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
        "@type": &perRoute type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - {actions: &user [{request_headers: {header_name: x-user, descriptor_key: user}}], hits_addend: {number: 0}}
          - {actions: *user, hits_addend: {format: "%DYNAMIC_METADATA(model:tokens)%"}, apply_on_stream_done: true}
  - match: {path: /header}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": *perRoute
        rate_limits:
          - {actions: *user, hits_addend: {number: 0}}
          - {actions: *user, hits_addend: {format: "%RESP(X-TOKENS)%"}, apply_on_stream_done: true}
  - match: {path: /reserved}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": *perRoute
        rate_limits:
          - {actions: *user, hits_addend: {number: 50}}
          - {actions: *user, hits_addend: {number: 50, is_negative_hits: true}, apply_on_stream_done: true}
          - {actions: *user, hits_addend: {format: "%RESP(X-TOKENS)%"}, apply_on_stream_done: true}
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
	s := gateway{filters: tokenFilters, virtualHost: tokenRoutes, upstream: m.addr}.start(t, userRules(100))
	for _, path := range []string{"/body", "/header"} {
		user := "reader of the " + path[1:]
		asked := m.asked.Load()
		s.want(path+"?tokens=60", "x-user: "+user, 200)
		s.weir.waitForRemaining(40, "api", "user", user)
		s.want(path+"?tokens=70", "x-user: "+user, 200) // how many it takes, nobody can know
		s.weir.waitForRemaining(0, "api", "user", user)
		s.want(path+"?tokens=1", "x-user: "+user, 429, 429)
		if got := m.asked.Load() - asked; got != 2 {
			t.Errorf("%s: the model was asked %d times, want 2: a denied request does not reach it", path, got)
		}
	}
	s.want("/body?tokens=1", "x-user: somebody else", 200)

	// Who would rather not let many requests in before the first is charged reserves an
	// amount, and gives it back when it is known what the answer took.
	answers := s.askInBackground("/reserved?tokens=20&hold", "reserving")
	s.weir.waitForRemaining(50, "api", "user", "reserving")
	close(m.release)
	if a := <-answers; a.status != 200 {
		t.Errorf("status %d, want 200", a.status)
	}
	s.weir.waitForRemaining(80, "api", "user", "reserving")

	// All that was taken is charged, not just what fitted.
	replaceRules(t, s.rules, userRules(200))
	for _, user := range []string{"reader of the body", "reader of the header"} {
		s.weir.waitForRemaining(70, "api", "user", user)
	}
}

// Of a quota of two, which is peeked at before and charged after, the reference admits
// three requests, and Weir does where it is asked for the counting of the reference.
func TestPeeksAtAUsedUpQuota(t *testing.T) {
	t.Parallel()
	for setting, statuses := range map[string][]int{"": {200, 200, 429}, "false": {200, 200, 200, 429}} {
		t.Run("setting "+setting, func(t *testing.T) {
			t.Parallel()
			s := gateway{virtualHost: tokenRoutes, upstream: startModel(t).addr}.start(t, userRules(2), "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT="+setting)
			for i, status := range statuses {
				s.want("/header?tokens=1", "x-user: alice", status)
				if status == 200 {
					s.weir.waitForMetric(fmt.Sprintf(`ratelimit_service_rate_limit_total_hits{domain="api",key1="user",key2=""} %d`, i+1))
				}
			}
		})
	}
}

// A charge is completed although the client has left in the middle of the answer, or Envoy
// no longer waits for its outcome.
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
