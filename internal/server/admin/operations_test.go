package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/operators/api"
)

// testDebug has every function.
func testDebug(access *Access) Debug {
	return Debug{
		Status:  func() Status { return Status{Version: "v1"} },
		Rules:   func(io.Writer) error { return nil },
		Reload:  func(context.Context) error { return nil },
		Metrics: NewMetrics(registryWith("hits")),
		Access:  access,
		Logger:  slog.New(slog.DiscardHandler),
		Denials: func(_ context.Context, all bool) (any, error) { return map[string]any{"user": secret, "all": all}, nil },
		Peek: func(_ context.Context, d api.Descriptor) (api.Counters, error) {
			return api.Counters{Descriptor: d, Rule: secret, Limits: []api.Counter{}}, nil
		},
		Reset: func(_ context.Context, d api.Descriptor, by, peer string) (api.Counters, error) {
			return api.Counters{Descriptor: d, Rule: by + " at " + peer, Reset: 1}, nil
		},
		Exceptions: func(_ context.Context, all bool) (api.Exceptions, error) {
			servers := 1
			if all {
				servers = 2
			}
			return api.Exceptions{Exceptions: []api.Exception{{Reason: secret}}, Servers: servers}, nil
		},
		AddException: func(_ context.Context, e api.NewException, peer string) (api.Exception, error) {
			return api.Exception{ID: "x", Descriptor: e.Descriptor, Effect: e.Effect, By: e.By, Reason: peer}, nil
		},
		RemoveException: func(_ context.Context, id, by, peer string) error {
			if id == "x" {
				return nil
			}
			return api.Errorf(api.ErrNotFound, "there is no exception %s (asked by %s at %s)", id, by, peer)
		},
	}
}

// withoutToken serves this machine only, by which get sends its requests.
func withoutToken(t *testing.T) *Access {
	t.Helper()
	access, _, _ := newAccess(t, "")
	return access
}

// ask returns the answer to a request with a body, over loopback.
func ask(handler http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:9", "127.0.0.1"
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// TestOperations sends good bodies and bad ones.
func TestOperations(t *testing.T) {
	handler := testDebug(withoutToken(t)).Handler()
	const alice = `{"domain":"api","entries":[{"key":"user","value":"alice"}]}`
	long := `{"domain":"` + strings.Repeat("x", bodyBytes) + `"}`
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/denials", "", 200, `"all": false`},
		{"GET", "/denials?replicas=this", "", 200, `"all": false`},
		{"GET", "/denials?replicas=all", "", 200, `"all": true`},
		{"GET", "/denials?replicas=%1b[31m", "", 400, `replicas: "\x1b[31m" is unknown, allowed are this and all`},
		{"GET", "/exceptions", "", 200, `"servers": 1`},
		{"GET", "/exceptions?replicas=all", "", 200, `"servers": 2`},
		{"GET", "/exceptions?replicas=some", "", 400, `replicas: "some" is unknown`},

		{"POST", "/peek", alice, 200, `"value": "alice"`},
		{"POST", "/peek", `{"domain":"api","entries":[{"key":"user","value_base64":"/w=="}]}`, 200, `"value_base64": "/w=="`},
		{"POST", "/peek", ` ` + alice + "\n", 200, `"domain": "api"`},
		{"POST", "/peek", `{"domain":"\u001b[31m<script>\u202e","entries":[]}`, 200, `"domain": "\u001b[31m\u003cscript\u003e\u202e"`},
		{"POST", "/peek", "", 400, "the body is empty, it must be JSON"},
		{"POST", "/peek", "user=alice", 400, "the body: invalid character 'u' looking for beginning of value"},
		{"POST", "/peek", alice + alice, 400, "the body: there is more after the JSON"},
		{"POST", "/peek", alice[:20], 400, "the body: unexpected EOF"},
		{"POST", "/peek", `{"domain":"api","colour":"red"}`, 400, `the body: unknown field "colour"`},
		{"POST", "/peek", `{"domain":"api","\u001b[2J":1}`, 400, `the body: unknown field "\x1b[2J"`},
		{"POST", "/peek", `{"domain":3}`, 400, `domain: it cannot be a JSON number`},
		{"POST", "/peek", `{"entries":[{"key":["user"]}]}`, 400, `entries.key: it cannot be a JSON array`},
		{"POST", "/peek", `[]`, 400, `the body: it cannot be a JSON array`},
		{"POST", "/peek", `{"domain":"api","entries":[{"key":"user","value_base64":"no!"}]}`, 400, "entries[0]: value_base64 is no base64"},
		{"POST", "/peek", "{\"domain\":\"\xff\"}", 400, "the body is not UTF-8, other bytes belong into the fields that end in _base64"},
		{"POST", "/peek", long, 413, "the body has more than 65536 bytes"},
		{"GET", "/peek", "", 405, ""},

		{"POST", "/reset?by=ann", alice, 200, `"rule": "ann at 127.0.0.1:9 by loopback"`},
		{"POST", "/reset?by=" + strings.Repeat("x", 257), alice, 400, "by: it has 257 bytes, allowed are at most 256"},
		{"POST", "/reset", `{"effect":"allow"}`, 400, `the body: unknown field "effect"`},

		{"POST", "/exceptions", `{"domain":"api","entries":[{"key":"user","value":"alice"}],"effect":"deny","for":60,"by":"ann","reason":"abuse"}`, 201, `"reason": "127.0.0.1:9 by loopback"`},
		{"POST", "/exceptions", `{"domain_base64":"*"}`, 400, "domain_base64 is no base64"},
		{"POST", "/exceptions", `{"for":"2h"}`, 400, "for: it cannot be a JSON string"},
		{"POST", "/exceptions", `{"entries":"user"}`, 400, "entries: it cannot be a JSON string"},
		{"DELETE", "/exceptions/x?by=ann", "", 204, ""},
		{"DELETE", "/exceptions/y?by=%0aann", "", 404, `there is no exception y (asked by \nann at 127.0.0.1:9 by loopback)`},
		{"DELETE", "/exceptions/", "", 404, ""},
		{"DELETE", "/exceptions/y?by=" + strings.Repeat("x", 257), "", 400, "by: it has 257 bytes"},
	} {
		w := ask(handler, tt.method, tt.path, tt.body)
		got, kind := w.Body.String(), w.Header().Get("Content-Type")
		if w.Code != tt.code || !strings.Contains(got, tt.want) {
			t.Errorf("%s %.60s %.80s: got %d %.300q, want %d %q", tt.method, tt.path, tt.body, w.Code, got, tt.code, tt.want)
		}
		switch {
		case w.Code < 300 && w.Code != 204 && (kind != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff" || !json.Valid(w.Body.Bytes())):
			t.Errorf("%s %s: got %v %s", tt.method, tt.path, w.Header(), got)
		case w.Code >= 400 && (kind != text || strings.Count(got, "\n") != 1):
			t.Errorf("%s %.60s: got %s %q, want a line of text", tt.method, tt.path, kind, got)
		}
	}
}

// TestErrorsOfOperations has each kind of error become a status.
func TestErrorsOfOperations(t *testing.T) {
	const evil = "redis (timeout): \x1b[2J\nalice"
	for kind, want := range map[error]int{
		api.ErrBadRequest: 400, api.ErrNotFound: 404, api.ErrFull: 409, api.ErrUnavailable: 503, errors.New("other"): 500,
	} {
		debug := testDebug(withoutToken(t))
		debug.AddException = func(context.Context, api.NewException, string) (api.Exception, error) {
			return api.Exception{}, api.Errorf(kind, evil)
		}
		w := ask(debug.Handler(), "POST", "/exceptions", "{}")
		if got := w.Body.String(); w.Code != want || got != `redis (timeout): \x1b[2J\nalice`+"\n" || (w.Header().Get("Retry-After") != "") != (want == 503) {
			t.Errorf("%v: got %d %q %v, want %d", kind, w.Code, got, w.Header(), want)
		}
	}
}

// TestRoutesThatAreNotThere has no functions but those that must be there.
func TestRoutesThatAreNotThere(t *testing.T) {
	full := testDebug(withoutToken(t))
	bare := Debug{Status: full.Status, Rules: full.Rules, Reload: full.Reload, Metrics: full.Metrics, Access: full.Access, Logger: full.Logger}
	full.Console = http.NotFoundHandler()
	few, all := ask(bare.Handler(), "GET", "/", "").Body.String(), ask(full.Handler(), "GET", "/", "").Body.String()
	for _, route := range []string{"GET /denials", "POST /peek", "POST /reset", "GET /exceptions", "POST /exceptions", "DELETE /exceptions/{id}", "GET /console"} {
		method, path, _ := strings.Cut(route, " ")
		line := fmt.Sprintf("\n%-6s %-16s", method, path)
		if strings.Contains(few, line) || !strings.Contains(all, line) {
			t.Errorf("%s: the list is not of what is there:\n%s\n%s", route, few, all)
		}
		if w := ask(bare.Handler(), method, path, "{}"); w.Code != 404 {
			t.Errorf("%s: got %d", route, w.Code)
		}
	}
	for _, line := range []string{"\nGET    /rlconfig        the rules that serve (from this machine)\n", "\nPOST   /-/reload        load the rules now (from this machine)\n", "\nGET    /stats           the metrics\n"} {
		if !strings.Contains(few, line) {
			t.Errorf("%q is not in\n%s", line, few)
		}
	}
	full.Access, _, _ = newAccess(t, goodToken)
	all = ask(full.Handler(), "GET", "/", "").Body.String()
	for _, line := range []string{"\nGET    /rlconfig        the rules that serve (with the token, or from this machine)\n", "\nPOST   /-/reload        load the rules now (with the token)\n"} {
		if !strings.Contains(all, line) {
			t.Errorf("%q is not in\n%s", line, all)
		}
	}
}

// TestStatusAsJSON shows all there is, and hostile text as text.
func TestStatusAsJSON(t *testing.T) {
	const evil = "\x1b[2J\u202e<script>\xff"
	at := statusTime
	debug := testDebug(withoutToken(t))
	debug.Status = func() Status {
		return Status{
			Version: "v1", Uptime: 90e9, Health: errors.New(evil), Notes: []string{evil}, Decided: 12.5, Denied: 2, Exceptions: 3,
			Store: Store{Name: evil, Remote: true, WorkedAt: at, FailingSince: at, FailedAt: at, Kind: "timeout", Problem: evil, Breaker: "open", FailureMode: "deny"},
			Rules: Rules{Path: evil, LoadedAt: at, FailedAt: at, Files: 2, Domains: 3, Rules: 4, Version: "7", Problems: evil, ControlPlane: &ControlPlane{Connected: true, Since: at}},
		}
	}
	w := ask(debug.Handler(), "GET", "/status", "")
	if body := w.Body.String(); w.Code != 200 || strings.ContainsAny(body, "\x1b\u202e<") || strings.Contains(body, "\xff") {
		t.Errorf("got %d %q", w.Code, body)
	}
	var got api.Status
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	const shown = "\x1b[2J\u202e<script>\ufffd" // JSON has no bytes that are no UTF-8
	want := api.Status{
		Version: "v1", UptimeSeconds: 90, Health: shown, Notes: []string{shown}, Exceptions: 3, Decisions: 12.5, Denials: 2,
		Store: api.Store{Name: shown, WorkedAt: &at, FailingSince: &at, FailedAt: &at, Problem: "timeout: " + shown, Breaker: "open", FailureMode: "deny"},
		Rules: api.Rules{Path: shown, Rules: 4, Domains: 3, Files: 2, Version: "7", LoadedAt: &at, FailedAt: &at, Problems: shown, ControlPlane: "connected since 2026-05-04T03:02:01Z"},
	}
	if fmt.Sprint(spell(t, got)) != fmt.Sprint(spell(t, want)) {
		t.Errorf("got:\n%s\nwant:\n%s", spell(t, got), spell(t, want))
	}

	debug.Status = func() Status { return Status{Store: Store{Name: "in memory"}} }
	body := ask(debug.Handler(), "GET", "/status", "").Body.String()
	for _, part := range []string{`"health": "OK"`, `"notes": []`, `"works": true`} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is not in %s", part, body)
		}
	}
	if strings.Contains(body, "_at") {
		t.Errorf("times that are not known: %s", body)
	}
}

func spell(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
