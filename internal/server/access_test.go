package server

import (
	"encoding/json"
	"fmt"
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
	outer, file := testenv.OuterAddr(t), filepath.Join(t.TempDir(), "token")
	const token, next = "correct-horse-battery-staple-0123", "another-horse-battery-staple-0123"
	write(t, file, token+"\n")
	f := start(t, "--config="+directory(t, limited(1)), "--debug-host=0.0.0.0", "--admin-token-file="+file)
	_, port, _ := net.SplitHostPort(f.debug.addr())
	want := func(method, path, token string, code int) {
		t.Helper()
		r := testenv.Must(http.NewRequestWithContext(t.Context(), method, "http://"+net.JoinHostPort(outer, port)+path, nil))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := f.http.Do(r)
		testenv.OK(t, err)
		response.Body.Close()
		if got := response.StatusCode; got != code {
			t.Errorf("%s %s with %q: got %d, want %d", method, path, token, got, code)
		}
	}
	want("GET", "/", "", 200)
	want("GET", "/rlconfig", "", 401)
	want("POST", "/-/reload", token, 200)
	f.wantAnswer("GET", "127.0.0.1:"+port, "/rlconfig", 200, "api.user: unit=YEAR")
	f.wantAnswer("POST", "127.0.0.1:"+port, "/-/reload", 401)

	testenv.OK(t, os.Remove(file))
	f.wantAnswer("GET", "127.0.0.1:"+port, "/", 200, "note        the previous value stays in use: ADMIN_TOKEN_FILE: open "+file+": no such file or directory\n")
	want("GET", "/rlconfig", token, 200)
	write(t, file, next)
	f.wantLog("a changed setting is in use")
	want("GET", "/rlconfig", token, 401)
	want("POST", "/-/reload", next, 200)
	if strings.Contains(f.log.String(), "horse") {
		t.Error("the log holds a token")
	}
}

// TestStatusAndDenialsAsJSON reads them after requests that were denied.
func TestStatusAndDenialsAsJSON(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(1)))
	f.wantPasses("alice", 5, 1)
	testenv.Eventually(t, func() error {
		var got api.Status
		_, body, err := f.request("GET", f.debug.addr(), "/status", "")
		if err != nil {
			return err
		}
		testenv.OK(t, json.Unmarshal([]byte(body), &got))
		if got.Version != "v0-test, revision abc, go1" || got.Health != "OK" || !got.Store.Works || got.Rules.Rules != 1 || got.Rules.LoadedAt.IsZero() || got.UptimeSeconds <= 0 {
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

// TestDenialsPage finds who is denied, by which rule, also after the rule has moved.
func TestDenialsPage(t *testing.T) {
	dir := directory(t, limited(1))
	f := start(t, "--config="+dir)
	f.wantPasses("alice", 2, 1)
	file := dir + "/rules.yaml"
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"rule": "user"`, `"place": "`+file+`:3:5"`, `"rate": "1 per year"`, `"denied": 1`, `"value": "alice"`, `"retry_after": `)
	write(t, file, "# a comment\n"+limited(1))
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"place": "`+file+`:4:5"`, `"denied": 1`)
	write(t, file, "domain: api\ndescriptors: [{key: tenant}]\n")
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200)
	if _, body, err := f.request("GET", f.debug.addr(), "/denials", ""); err != nil || strings.Contains(body, `"place"`) || !strings.Contains(body, `"denied": 1`) {
		t.Errorf("got %v, %s", err, body)
	}
}
