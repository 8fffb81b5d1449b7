package api

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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/operators"
	"weir/internal/plan"
	"weir/internal/rlqs"
	"weir/internal/testenv"
)

// secret is a text that must be shown only with access.
const secret = "alice"

// testServer returns a server with rules and counters that contain secret.
func testServer(t *testing.T, access *Access) *Server {
	t.Helper()
	tree := testenv.Must(descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(`{domain: api, descriptors: [{key: user, rate_limit: [
		{name: burst, unit: hour, requests_per_unit: 3}, {unit: day, requests_per_unit: 100}]}]}`)}}, descriptors.Options{}))(t)
	logger := slog.New(slog.DiscardHandler)
	exceptions := operators.NewExceptionStore(nil, prometheus.NewRegistry(), logger)
	return &Server{
		Desk: &operators.Desk{
			Logger: logger, Tree: func() *descriptors.Tree { return tree }, Store: memory.New(memory.Options{Now: time.Now}),
			Plan: plan.Options{Exceptions: &exceptions.Current, Assigned: exceptions.Assigned()}, Recorder: operators.NewRecorder(time.Now()), Spending: operators.NewSpending(prometheus.NewRegistry()), InForce: exceptions,
			Shares: func(time.Time, int) []rlqs.Share { return nil },
		},
		Access:  access,
		Status:  func() Status { return Status{Version: "v1", Health: "OK", Problems: []Problem{}} },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\nhits 3\n") }),
		Dump: func(w io.Writer) error {
			_, err := io.WriteString(w, secret)
			return err
		},
		Reload: func() error { return nil },
	}
}

// ask returns the answer to a request over loopback.
func ask(handler http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:9", "127.0.0.1"
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// TestOperations sends valid and invalid bodies.
func TestOperations(t *testing.T) {
	s := testServer(t, withToken(t, "", io.Discard))
	handler := s.Handler()
	added := testenv.Must(s.AddException(t.Context(), plan.Exception{
		JSONDescriptor: plan.NewJSONDescriptor("api", []limiter.Entry{{Key: "user", Value: "bob"}}), Effect: plan.Deny, For: 60, Reason: "abuse",
	}, "peer"))(t)
	const alice = `{"domain":"api","entries":[{"key":"user","value":"alice"}]}`
	long := `{"domain":"` + strings.Repeat("x", bodyBytes) + `"}`
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/denials", "", 200, `"servers": 1`},
		{"PUT", "/assigned", `{"domain":"api","descriptor":"user=a","limit":"burst","amount":7}`, 200, `"added": 1`},
		{"POST", "/assigned?prune=true", "", 400, "prune is allowed with PUT only"},
		{"PUT", "/assigned", `{"domain":"api","descriptor":"user=a","limt":"burst"}`, 200, `unknown field \"limt\"`},
		{"GET", "/assigned?domain=api&prefix=user=", "", 200, `"amount": "7"`},
		{"GET", "/assigned?n=x", "", 400, `n: "x" is not a number; use 0 to 16777215`},
		{"DELETE", "/assigned", `{"domain":"api","descriptor":"user=a","limit":"burst"}`, 200, `"removed": 1`},
		{"GET", "/denials?servers=all", "", 200, `"servers": 1`},
		{"GET", "/denials?domain=apii", "", 200, `"note": "there are no rules for the domain \"apii\", did you mean \"api\"?"`},
		{"GET", "/denials?domain=api&descriptor=usr%3dalice", "", 200, `"note": "no rule of the domain has the key \"usr\", did you mean \"user\"?"`},
		{"GET", "/denials?servers=%1b[31m", "", 400, `servers: "\x1b[31m" is unknown; use this or all`},
		{"GET", "/exceptions", "", 200, `"servers": 1`},
		{"GET", "/exceptions?servers=all", "", 200, `"servers": 1`},

		{"POST", "/peek", alice, 200, `"value": "alice"`},
		{"POST", "/peek", `{"domain":"api","entries":[{"key":"user","value_base64":"/w=="}]}`, 200, `"value_base64": "/w=="`},
		{"POST", "/peek", `{"domain":"\u001b[31m<script>\u202e","entries":[{"key":"k","value":""}]}`, 200, `"domain": "\u001b[31m\u003cscript\u003e\u202e"`},
		{"POST", "/peek", `{"domain":"api","entries":[]}`, 400, "the descriptor has no entries"},
		{"POST", "/peek", "", 400, "invalid body: EOF"},
		{"POST", "/peek", alice + " " + alice, 400, "invalid body: more text follows the JSON value"},
		{"POST", "/exceptions", `{"domain":"api","entries":[{"key":"user","value":"alice"}],"effect":"deny","for":60,"reason":"abuse"}]`, 400, "invalid body: more text follows the JSON value"},
		{"POST", "/peek", "user=alice", 400, "invalid body: invalid character 'u' looking for beginning of value"},
		{"POST", "/peek", `{"domain":"api","colour":"red"}`, 400, `invalid body: unknown field "colour"`},
		{"POST", "/peek", `{"domain":"api","\u001b[2J":1}`, 400, `invalid body: unknown field "\x1b[2J"`},
		{"POST", "/peek", `{"entries":[{"key":["user"]}]}`, 400, `invalid body: cannot unmarshal array into Go struct field JSONEntry.entries.key of type string`},
		{"POST", "/peek", `{"domain":"api","entries":[{"key":"user","value_base64":"no!"}]}`, 400, "invalid body: illegal base64 data at input byte 2"},
		{"POST", "/peek", "{\"domain\":\"\xff\"}", 400, "the body is not UTF-8, put other bytes in the fields that end in _base64"},
		{"POST", "/peek", long, 413, "the body has more than 65536 bytes"},
		{"GET", "/peek", "", 405, ""},

		{"POST", "/reset?by=ann", alice, 200, `"reset": 2`},

		{"POST", "/exceptions", `{"domain":"api","entries":[{"key":"user","value":"alice"}],"effect":"deny","for":60,"by":"ann","reason":"abuse"}`, 201, `"reason": "abuse"`},
		{"POST", "/exceptions", `{"domain":"api","entries":[{"key":"user","value":"alice"}],"effect":"deny","for":60,"reason":"abuse","until":"2030-01-01T00:00:00Z"}`, 400, "invalid body: only answers have id, created, until, used and note"},
		{"POST", "/exceptions", `{"domain_base64":"*"}`, 400, "invalid body: illegal base64 data at input byte 0"},
		{"DELETE", "/exceptions/" + added.ID + "?by=ann", "", 204, ""},
		{"DELETE", "/exceptions/y?by=ann", "", 404, `exception "y": there is no such exception`},
		{"DELETE", "/exceptions/", "", 404, ""},

		{"GET", "/rlconfig", "", 200, secret},
		{"GET", "/stats", "", 200, "\nhits 3\n"},
		{"POST", "/-/reload", "", 200, "rules loaded\n"},
		{"GET", "/-/reload", "", 405, ""}, // from a link
		{"GET", "/debug/pprof/goroutine?debug=1", "", 200, "goroutine profile:"},
		{"GET", "/debug/pprof/cmdline", "", 404, ""},
		{"GET", "/nowhere", "", 404, ""},
		{"GET", "/", "", 200, "version     Weir v1"},
	} {
		w := ask(handler, tt.method, tt.path, tt.body)
		got, kind := w.Body.String(), w.Header().Get("Content-Type")
		if w.Code != tt.code || !strings.Contains(got, tt.want) {
			t.Errorf("%s %.60s %.80s: got %d %.300q, want %d %q", tt.method, tt.path, tt.body, w.Code, got, tt.code, tt.want)
		}
		switch {
		case strings.HasPrefix(tt.want, `"`) && (kind != "application/json" || !json.Valid(w.Body.Bytes())):
			t.Errorf("%s %s: got %v %s", tt.method, tt.path, w.Header(), got)
		case w.Code >= 400 && tt.want != "" && (kind != "text/plain; charset=utf-8" || strings.Count(got, "\n") != 1):
			t.Errorf("%s %.60s: got %s %q, want a line of text", tt.method, tt.path, kind, got)
		}
	}
}

// TestFrontPage checks that browsers are redirected to the console and other clients get a text.
func TestFrontPage(t *testing.T) {
	handler := testServer(t, withToken(t, "", io.Discard)).Handler()
	for accept, want := range map[string]string{"": "", "*/*": "", "text/plain": "", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8": "/console/"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != want || w.Header().Get("Vary") != "Accept" || strings.Contains(w.Body.String(), "health      OK") != (want == "") {
			t.Errorf("%q: got %d %v %s", accept, w.Code, w.Header(), w.Body)
		}
	}
}

// TestErrors checks that each kind of error has its status, and that foreign texts are shown as plain text.
func TestErrors(t *testing.T) {
	const evil, shown = "redis (timeout): \x1b[2J\nalice", `redis (timeout): \x1b[2J\nalice` + "\n"
	s := testServer(t, withToken(t, "", io.Discard))
	for kind, want := range map[error]int{
		operators.ErrBadRequest: 400, operators.ErrNotFound: 404, operators.ErrFull: 409, operators.ErrUnavailable: 503, errors.New("other"): 500,
	} {
		err := errors.New(evil)
		if kind, ok := kind.(operators.Kind); ok {
			err = operators.Errorf(kind, evil)
		}
		failing := answer(http.StatusOK, func(*http.Request) (any, error) { return nil, err })
		if w := ask(failing, "GET", "/denials", ""); w.Code != want || w.Body.String() != shown || (w.Header().Get("Retry-After") != "") != (want == 503) {
			t.Errorf("%v: got %d %q %v, want %d", kind, w.Code, w.Body, w.Header(), want)
		}
	}
	s.Dump = func(io.Writer) error { return errors.New("no rules\x1b") }
	if w := ask(s.Handler(), "GET", "/rlconfig", ""); w.Code != 500 || w.Body.String() != `no rules\x1b`+"\n" {
		t.Errorf("rules: got %d %q", w.Code, w.Body)
	}
}

// TestStatus shows hostile texts as text and as JSON, and omits unknown times.
func TestStatus(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\nhealth      OK\x00\xff\u202e"
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	status := Status{
		Health: evil, Problems: []Problem{{Text: evil, Means: evil, Link: evil}}, Servers: []Status{{Name: evil}}, Store: Store{Name: evil, FailingSince: at, FailedAt: at, Problem: "timeout: " + evil, FailureMode: "error"},
		Rules: Rules{Path: evil, LoadedAt: at, Problems: evil, Version: evil, FailedVersion: evil, ControlPlane: evil},
	}
	s := testServer(t, withToken(t, "", io.Discard))
	s.Status = func() Status { return status }
	page := ask(s.Handler(), "GET", "/", "").Body.String()
	if !strings.Contains(page, `health      \x1b[2J\u009b31m\nhealth`) || plaintext.Lines(page) != page || strings.Count(page, "\nhealth      ") > 1 {
		t.Errorf("got:\n%q", page)
	}
	got := ask(s.Handler(), "GET", "/status", "").Body.String()
	var shown Status
	testenv.OK(t, json.Unmarshal([]byte(got), &shown))
	if want := strings.ToValidUTF8(evil, "\uFFFD"); shown.Health != want || shown.Rules.Problems != want || strings.ContainsAny(got, "\x1b\u202e<") {
		t.Errorf("got %q", got)
	}
	if strings.Contains(got, "worked_at") || !strings.Contains(got, `"failing_since": "2026-05-04T03:02:01Z"`) || !strings.Contains(got, `"red": false`) {
		t.Errorf("got %s", got)
	}
}

// TestPage checks that all requests during a rendering share it, with and without gzip, and that later
// requests get another one, but not all the time.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, slow, version := 0, 10*time.Millisecond, time.Now()
		page := NewPage(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			made++
			time.Sleep(slow)
			plain(w)
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, strings.Repeat("page ", 10_000), made)
		}), func() time.Time { return version })
		read := func(encoding string) string {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", encoding)
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			h := w.Header()
			if w.Code != http.StatusTeapot || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Vary") != "Accept-Encoding" || (h.Get("Content-Encoding") == "gzip") != (w.Body.Len() < 1000) {
				t.Errorf("got %d %v, %d bytes", w.Code, h, w.Body.Len())
			}
			return strings.TrimPrefix(w.Body.String(), strings.Repeat("page ", 10_000))
		}
		want := func(n int) {
			t.Helper()
			if got := read(""); got != fmt.Sprint(n) || made != n {
				t.Errorf("got page %q, %d were made, want %d", got, made, n)
			}
		}
		var readers sync.WaitGroup
		for range 50 {
			readers.Go(func() { read("") })
			readers.Go(func() { read("gzip, br") })
		}
		readers.Wait()
		testenv.Equal(t, made, 1, "pages that were made for 100 readers")
		want(2) // it was cheap, so the next reader gets a new page
		slow = time.Second
		want(3)
		time.Sleep(2 * time.Second)
		want(3) // it took a long time, so it is reused
		time.Sleep(2 * time.Second)
		want(4)
		version = time.Now()
		want(5) // the version changed
	})
}
