package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/operators/api"
	"weir/internal/testenv"
)

// TestTokenOpensTheDebugPort comes from elsewhere with a token and without one, until the
// token is another one.
func TestTokenOpensTheDebugPort(t *testing.T) {
	t.Parallel()
	outer := testenv.OuterAddr(t)
	file := filepath.Join(t.TempDir(), "token")
	const token, next = "correct-horse-battery-staple-0123", "another-horse-battery-staple-0123"
	write(t, file, token+"\n")
	f := start(t, "--config="+directory(t, limited(1)), "--debug-host=0.0.0.0", "--admin-token-file="+file)
	f.wantHealth(true, "OK")
	_, port, _ := net.SplitHostPort(f.debug.addr())
	ask := func(method, path, token string) (int, string) {
		r, _ := http.NewRequestWithContext(t.Context(), method, "http://"+net.JoinHostPort(outer, port)+path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := f.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	want := func(method, path, token string, code int, part string) {
		t.Helper()
		if got, body := ask(method, path, token); got != code || !strings.Contains(body, part) {
			t.Errorf("%s %s with %q: got %d %s, want %d %s", method, path, token, got, body, code, part)
		}
	}
	for _, path := range []string{"/", "/status", "/stats"} {
		want("GET", path, "", 200, "")
	}
	for _, route := range []string{"GET /rlconfig", "GET /denials", "GET /debug/pprof/", "POST /-/reload"} {
		method, path, _ := strings.Cut(route, " ")
		want(method, path, "", 401, "the token is missing or invalid\n")
		want(method, path, token, 200, "")
	}
	f.wantLog(`msg="the rules are loaded on request" audit=true peer="` + outer + ":")
	f.wantAnswer("GET", "127.0.0.1:"+port, "/rlconfig", 200, "api.user: unit=YEAR")
	f.wantAnswer("POST", "127.0.0.1:"+port, "/-/reload", 401)

	testenv.OK(t, os.Remove(file))
	f.wantAnswer("GET", "127.0.0.1:"+port, "/", 200, "note        the previous value stays in use: ADMIN_TOKEN_FILE: open "+file+": no such file or directory\n")
	want("GET", "/rlconfig", token, 200, "api.user")
	write(t, file, next)
	f.wantLog("a changed setting is in use")
	want("GET", "/rlconfig", token, 401, "")
	want("POST", "/-/reload", next, 200, "rules loaded")
	if strings.Contains(f.log.String(), "horse") {
		t.Error("the log holds a token")
	}
}

// TestStatusAndDenialsAsJSON reads them after requests that were denied.
func TestStatusAndDenialsAsJSON(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(1)))
	for range 5 {
		testenv.Must(f.ask(t.Context(), "alice"))(t)
	}
	testenv.Eventually(t, func() error {
		var got api.Status
		_, body, err := f.request("GET", f.debug.addr(), "/status", "")
		if err != nil {
			return err
		}
		testenv.OK(t, json.Unmarshal([]byte(body), &got))
		if got.Version != "v0-test, go1" || got.Health != "OK" || !got.Store.Works || got.Rules.Rules != 1 || got.Rules.LoadedAt.IsZero() || got.UptimeSeconds <= 0 {
			t.Errorf("got %s", body)
		}
		if got.Decisions <= 0 || got.Denials <= 0 || got.Decisions <= got.Denials {
			return fmt.Errorf("got %s", body)
		}
		return nil
	})
	f.wantAnswer("GET", f.debug.addr(), "/status", 200, `"notes": []`)
	f.wantAnswer("GET", f.debug.addr(), "/denials?servers=all", 200, `"servers": 1`, `"denied": 4`, `"value": "alice"`)
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_decided_requests_total{outcome="admitted"} 1`, `weir_decided_requests_total{outcome="denied"} 4`, "weir_admin_failed_logins_total 0")
}
