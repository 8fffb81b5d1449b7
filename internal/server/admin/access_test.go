package admin

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/testenv"
)

// newAccess returns an Access with that token, "" for none.
func newAccess(t *testing.T, token string) (a *Access, registry *prometheus.Registry, log *testenv.Log) {
	t.Helper()
	if token == "" {
		return accessByFile(t, "")
	}
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, token)
	return accessByFile(t, path)
}

// accessByFile is newAccess for the file of a token, "" if there is none.
func accessByFile(t *testing.T, path string) (a *Access, registry *prometheus.Registry, log *testenv.Log) {
	t.Helper()
	registry, log = prometheus.NewRegistry(), new(testenv.Log)
	a, err := NewAccess(AccessOptions{TokenFile: path, Registerer: registry, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return a, registry, log
}

// serveAll serves handler on all addresses of this machine, and returns the port.
func serveAll(t *testing.T, handler http.Handler) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(handler, 1000, slog.New(slog.DiscardHandler))
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port
}

// asked is a request and how it is to be answered.
type asked struct {
	method, to, path string
	host             string // "" for the address
	header           map[string]string
	form             url.Values
	want             int
}

// send sends a request and wants the status. It follows no redirect.
func (a asked) send(t *testing.T, port string) (header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), a.method, "http://"+net.JoinHostPort(a.to, port)+a.path, strings.NewReader(a.form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if a.host != "" {
		r.Host = strings.ReplaceAll(a.host, "PORT", port)
	}
	if a.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range a.header {
		r.Header.Set(name, strings.ReplaceAll(value, "PORT", port))
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Errorf("%+v: %v", a, err)
		return http.Header{}, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != a.want {
		t.Errorf("%s %s at %s, Host %q, %v: got %d %.200q, want %d (error: %v)", a.method, a.path, a.to, a.host, a.header, response.StatusCode, text, a.want, err)
	}
	return response.Header, string(text)
}

// secret is what only some may see.
const secret = "alice"

// debugWith is what an operator may see and do, with three routes that show secret.
func debugWith(access *Access, log io.Writer) Debug {
	debug := testDebug(access)
	debug.Logger = slog.New(slog.NewTextHandler(log, nil))
	debug.Rules = func(w io.Writer) error {
		_, err := io.WriteString(w, secret)
		return err
	}
	return debug
}

func bearing(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// ipv6 is ::1 if this machine has it, else 127.0.0.1.
func ipv6() string {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return "127.0.0.1"
	}
	listener.Close()
	return "::1"
}

// The routes of each class.
var (
	openRoutes   = []string{"GET /", "GET /status", "GET /stats"}
	valueRoutes  = []string{"GET /rlconfig", "GET /denials", "GET /debug/pprof/", "GET /debug/pprof/symbol", "POST /peek", "GET /exceptions"}
	changeRoutes = []string{"POST /-/reload", "POST /reset", "POST /exceptions", "DELETE /exceptions/x"}
)

// TestClassesOfRoutes has each route in one of the lists above, and asks for it from
// everywhere.
func TestClassesOfRoutes(t *testing.T) {
	outer := testenv.OuterAddr(t)
	for _, token := range []string{"", goodToken} {
		access, _, _ := newAccess(t, token)
		debug := debugWith(access, io.Discard)
		refused := http.StatusForbidden
		if token != "" {
			refused = http.StatusUnauthorized
		}
		known := map[string]bool{}
		for class, routes := range map[class][]string{open: openRoutes, values: valueRoutes, changes: changeRoutes} {
			for _, route := range routes {
				method, path, _ := strings.Cut(route, " ")
				for _, to := range []string{"127.0.0.1", ipv6(), outer} {
					local := to != outer
					ask := asked{method: method, to: to, path: path, want: http.StatusOK}
					switch {
					case class == open || local && (class == values || token == ""):
						known[route] = true
						if method == http.MethodPost || method == http.MethodDelete {
							continue // TestOperations sends bodies
						}
					default:
						ask.want = refused
					}
					port := serveAll(t, debug.Handler()) // its own, because of the pauses between profiles
					header, body := ask.send(t, port)
					if ask.want == http.StatusOK {
						continue
					}
					if strings.Contains(body, secret) || (header.Get("WWW-Authenticate") != "") != (refused == http.StatusUnauthorized) {
						t.Errorf("%s at %s: %v %s", route, to, header, body)
					}
					if text := "without ADMIN_TOKEN_FILE this is served to 127.0.0.1 and ::1 only, and to no proxy, for example by kubectl port-forward\n"; token == "" && body != text {
						t.Errorf("%s at %s: got %q, want %q", route, to, body, text)
					}
					if token != "" && body != "the token is missing or wrong\n" {
						t.Errorf("%s at %s: got %q", route, to, body)
					}
				}
			}
		}
		for _, r := range (&pages{Debug: debug}).routes() {
			method, path := r.method, strings.NewReplacer("{$}", "", "{id}", "x").Replace(r.path)
			if method == "" {
				method = http.MethodGet
			}
			if r.class != own && !known[method+" "+path] && token == "" {
				t.Errorf("%s %s is in no class", method, path)
			}
		}
	}
}

// TestWhoMay asks for a page with values and for a change in every way.
func TestWhoMay(t *testing.T) {
	outer, six := testenv.OuterAddr(t), ipv6()
	const (
		page   = "GET /rlconfig"
		change = "POST /-/reload"
	)
	crossSite := map[string]string{"Sec-Fetch-Site": "cross-site"}
	link := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	with := func(token string, more map[string]string) map[string]string {
		all := bearing(token)
		for name, value := range more {
			all[name] = value
		}
		return all
	}
	for _, tt := range []struct {
		token, route, to, host string
		header                 map[string]string
		want                   int
	}{
		{"", page, "127.0.0.1", "", nil, 200}, {"", change, "127.0.0.1", "", nil, 200},
		{"", page, "127.0.0.2", "", nil, 200}, {"", change, six, "", nil, 200},
		{"", page, outer, "", nil, 403}, {"", change, outer, "", nil, 403},
		{"", page, outer, "127.0.0.1:PORT", nil, 403}, {"", page, outer, "localhost", map[string]string{"X-Forwarded-For": "127.0.0.1"}, 403},
		{"", page, outer, "", bearing(goodToken), 403}, // no token is no token that fits

		// The names of the server that a page may not turn to 127.0.0.1.
		{"", page, "127.0.0.1", "localhost:PORT", nil, 200}, {"", page, "127.0.0.1", "LocalHost", nil, 200},
		{"", change, "127.0.0.1", "[::1]:PORT", nil, 200}, {"", change, "127.0.0.1", "192.0.2.1", nil, 200},
		{"", page, "127.0.0.1", "evil.example:PORT", nil, 403}, {"", change, "127.0.0.1", "evil.example", nil, 403},
		{"", page, "127.0.0.1", "localhost.evil.example", nil, 403}, {"", page, "127.0.0.1", "127.0.0.1.evil.example", nil, 403},
		{"", page, six, "weir", nil, 403},

		// Proxies on this machine.
		{"", page, "127.0.0.1", "", map[string]string{"X-Forwarded-For": "192.0.2.1"}, 403},
		{"", change, "127.0.0.1", "", map[string]string{"Forwarded": "for=127.0.0.1"}, 403},
		{"", page, "127.0.0.1", "", map[string]string{"X-Real-IP": "192.0.2.1"}, 403}, {"", change, "127.0.0.1", "", map[string]string{"Via": "1.1 proxy"}, 403},

		// Pages of other sites.
		{"", page, "127.0.0.1", "", crossSite, 403}, {"", change, "127.0.0.1", "", crossSite, 403},
		{"", page, "127.0.0.1", "", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"", change, "127.0.0.1", "", map[string]string{"Origin": "http://evil.example"}, 403}, {"", change, "127.0.0.1", "", map[string]string{"Origin": "null"}, 403},
		{"", change, "127.0.0.1", "", map[string]string{"Origin": "http://127.0.0.1:PORT"}, 200},
		{"", change, "127.0.0.1", "", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200}, {"", page, "127.0.0.1", "", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"", page, "127.0.0.1", "", link, 403}, {"", "GET /console/", "127.0.0.1", "", link, 200}, {"", "GET /console/", "127.0.0.1", "", crossSite, 403},

		{goodToken, page, outer, "", bearing(goodToken), 200}, {goodToken, change, outer, "", bearing(goodToken), 200},
		{goodToken, change, outer, "weir.example", bearing(goodToken), 200},
		{goodToken, change, outer, "", map[string]string{"Authorization": "bearer  " + goodToken + " "}, 200},
		{goodToken, page, outer, "", nil, 401}, {goodToken, change, outer, "", nil, 401},
		{goodToken, page, outer, "", bearing("wrong"), 401}, {goodToken, change, outer, "", bearing(goodToken + "x"), 401},
		{goodToken, change, outer, "", bearing(goodToken[:20]), 401}, {goodToken, change, outer, "", bearing(""), 401},
		{goodToken, change, outer, "", map[string]string{"Authorization": "Basic " + goodToken}, 401}, {goodToken, change, outer, "", map[string]string{"Authorization": goodToken}, 401},
		{goodToken, page, "127.0.0.1", "", nil, 200}, {goodToken, change, "127.0.0.1", "", nil, 401},
		{goodToken, page, "127.0.0.1", "evil.example", nil, 401}, {goodToken, change, "127.0.0.1", "weir.example", bearing(goodToken), 200},
		{goodToken, page, "127.0.0.1", "", bearing("wrong"), 401},
		{goodToken, change, "127.0.0.1", "", with(goodToken, crossSite), 403}, {goodToken, page, outer, "", with(goodToken, crossSite), 403},
	} {
		access, _, _ := newAccess(t, tt.token)
		debug := debugWith(access, io.Discard)
		debug.Console = access.Values(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		method, path, _ := strings.Cut(tt.route, " ")
		header, body := asked{method: method, to: tt.to, path: path, host: tt.host, header: tt.header, want: tt.want}.send(t, serveAll(t, debug.Handler()))
		if tt.want != 200 && strings.Contains(body, secret) || tt.want == 200 && header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %v %s", tt, header, body)
		}
	}
}

// TestSignIn signs in and out as a browser does.
func TestSignIn(t *testing.T) {
	outer := testenv.OuterAddr(t)
	access, _, log := newAccess(t, goodToken)
	audit := new(testenv.Log)
	port := serveAll(t, debugWith(access, audit).Handler())
	signIn := func(token string, header map[string]string, want int) http.Header {
		t.Helper()
		got, body := asked{method: "POST", to: outer, path: "/console/signin", form: url.Values{"token": {token}}, header: header, want: want}.send(t, port)
		if want == 401 && (got.Get("WWW-Authenticate") == "" || got.Get("Set-Cookie") != "" || body != "the token is missing or wrong\n") {
			t.Errorf("got %v %q", got, body)
		}
		return got
	}
	signIn("", nil, 401)
	signIn("wrong", nil, 401)
	signIn(goodToken, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403)
	asked{method: "POST", to: outer, path: "/console/signin?token=" + goodToken, want: 401}.send(t, port)

	got := signIn(goodToken, nil, 303)
	name, rest, _ := strings.Cut(got.Get("Set-Cookie"), "=")
	value, attributes, _ := strings.Cut(rest, "; ")
	if got.Get("Location") != "/console/" || name != "weir_session_"+port || len(value) != 43 || attributes != "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict" {
		t.Errorf("got %v", got)
	}
	log.WaitFor(t, `msg="signed in to the console" audit=true peer=`+outer+":")
	if got := signIn(goodToken, map[string]string{"X-Forwarded-Proto": "https"}, 303); !strings.Contains(got.Get("Set-Cookie"), "; Secure") {
		t.Errorf("by TLS: got %v", got)
	}

	cookie := map[string]string{"Cookie": name + "=" + value}
	change := asked{method: "POST", to: outer, path: "/-/reload", header: cookie, want: 200}
	page := asked{method: "GET", to: outer, path: "/rlconfig", header: cookie, want: 200}
	change.send(t, port)
	page.send(t, port)
	audit.WaitFor(t, `msg="the rules are loaded on request" audit=true peer="`+outer+":")
	audit.WaitFor(t, ` by session"`)
	change.header, change.want = map[string]string{"Cookie": name + "=" + value, "Sec-Fetch-Site": "cross-site"}, 403
	change.send(t, port)
	page.header, page.want = map[string]string{"Cookie": name + "=" + strings.Repeat("A", 43)}, 401
	page.send(t, port)

	asked{method: "POST", to: outer, path: "/console/signout", header: map[string]string{"Cookie": name + "=" + value, "Origin": "http://evil.example"}, want: 403}.send(t, port)
	page.header, page.want = cookie, 200
	page.send(t, port)
	out, _ := asked{method: "POST", to: outer, path: "/console/signout", header: cookie, want: 303}.send(t, port)
	if !strings.HasPrefix(out.Get("Set-Cookie"), name+"=; Path=/; Max-Age=0") {
		t.Errorf("got %v", out)
	}
	page.want = 401
	page.send(t, port)
	change.header, change.want = cookie, 401
	change.send(t, port)

	without, _, _ := newAccess(t, "")
	asked{method: "POST", to: outer, path: "/console/signin", form: url.Values{"token": {goodToken}}, want: 404}.send(t, serveAll(t, debugWith(without, io.Discard).Handler()))
}

// TestSignInRefused has a page of its own for refusals.
func TestSignInRefused(t *testing.T) {
	access, _, _ := newAccess(t, goodToken)
	debug := debugWith(access, io.Discard)
	debug.SignInRefused = func(w http.ResponseWriter, _ *http.Request, code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "<p>%s</p>", reason)
	}
	header, body := asked{method: "POST", to: "127.0.0.1", path: "/console/signin", form: url.Values{"token": {"wrong"}}, want: 401}.send(t, serveAll(t, debug.Handler()))
	if body != "<p>the token is missing or wrong</p>" || header.Get("WWW-Authenticate") == "" {
		t.Errorf("got %v %s", header, body)
	}
}

// TestManyWrongTokens sends 10,000 wrong tokens from two addresses, while others go on
// with the right one.
func TestManyWrongTokens(t *testing.T) {
	outer := testenv.OuterAddr(t)
	access, registry, log := newAccess(t, goodToken)
	port := serveAll(t, debugWith(access, io.Discard).Handler())
	const clients, each = 10, 1000
	session, _ := access.token.begin(goodToken, time.Now())
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for c := range clients {
		to := []string{"127.0.0.1", outer}[c%2]
		all.Go(func() {
			transport := &http.Transport{MaxIdleConns: 1}
			defer transport.CloseIdleConnections()
			for i := range each {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(to, port)+"/rlconfig", nil)
				r.Header.Set("Authorization", fmt.Sprintf("Bearer wrong-%d-%d", c, i))
				response, err := transport.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if strings.Contains(string(body), secret) {
					t.Errorf("a wrong token is let in: %s", body)
				}
				mu.Lock()
				codes[response.StatusCode]++
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for asks := true; asks; { // meanwhile
		asked{method: "POST", to: "127.0.0.1", path: "/-/reload", header: bearing(goodToken), want: 200}.send(t, port)
		asked{method: "GET", to: outer, path: "/rlconfig", header: map[string]string{"Cookie": "weir_session_" + port + "=" + session}, want: 200}.send(t, port)
		select {
		case <-done:
			asks = false
		default:
		}
	}
	if codes[401]+codes[429] != clients*each || codes[401] > 40 || codes[401] < 2*forgiven {
		t.Errorf("got %v, want a few 401 and else 429", codes)
	}
	_, _, body := get(NewMetrics(registry).At("/metrics"), "GET", "/metrics")
	if !strings.Contains(body, fmt.Sprintf("\nweir_admin_failed_logins_total %d\n", clients*each)) {
		t.Errorf("got %s", body)
	}
	if n := strings.Count(log.String(), "a wrong token on the debug port"); n != 1 {
		t.Errorf("there are %d lines of log, want 1 a minute:\n%s", n, log)
	}
	if n := len(access.token.attempts); n != 2 {
		t.Errorf("%d addresses are remembered, want 2", n)
	}

	header, body := asked{method: "GET", to: outer, path: "/rlconfig", header: bearing(goodToken), want: 429}.send(t, port)
	wait, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 10 || strings.Contains(body, secret) {
		t.Errorf("got Retry-After %q, want at most 10 (error: %v): %s", header.Get("Retry-After"), err, body)
	}
}

// TestTokensChangeUnderRequests changes the token again and again. The token that a
// request is let in with was there, at most a look ago.
func TestTokensChangeUnderRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, goodToken)
	access, _, log := accessByFile(t, path)
	port := serveAll(t, debugWith(access, io.Discard).Handler())
	go access.Follow(t.Context())
	ask := func(token string) int {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+"/-/reload", nil)
		r.Header = http.Header{"Authorization": {"Bearer " + token}}
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	last := goodToken
	for i := range 2 {
		next := fmt.Sprintf("%s-%d", goodToken, i)
		if code := ask(last); code != 200 {
			t.Errorf("the token gets %d", code)
		}
		writeToken(t, path, next+"\n")
		testenv.Eventually(t, func() error {
			switch before, after := ask(last), ask(next); {
			case before == 200: // it is not read yet
				return fmt.Errorf("the old token gets %d, the new one %d", before, after)
			case after != 200:
				t.Errorf("the old token gets %d, and the new one %d", before, after)
			}
			return nil
		})
		last = next
	}
	if n := strings.Count(log.String(), "a secret has changed"); n != 2 {
		t.Errorf("%d tokens came into use, want 2:\n%s", n, log)
	}
}

// TestNeedsSignIn is what the console asks.
func TestNeedsSignIn(t *testing.T) {
	outer := testenv.OuterAddr(t)
	for _, tt := range []struct {
		token, to  string
		header     map[string]string
		session    bool
		needs, may bool
		want       int
		by         way
	}{
		{"", "127.0.0.1", nil, false, false, true, 200, byLoopback},
		{"", outer, nil, false, false, false, 403, ""},
		{goodToken, "127.0.0.1", nil, false, false, false, 200, byLoopback},
		{goodToken, "127.0.0.1", nil, true, false, true, 200, bySession},
		{goodToken, outer, nil, false, true, false, 401, ""},
		{goodToken, outer, nil, true, false, true, 200, bySession},
		{goodToken, outer, bearing(goodToken), false, false, true, 200, byToken},
		{goodToken, outer, bearing("wrong"), false, false, false, 401, ""},
	} {
		access, _, _ := newAccess(t, tt.token)
		var needs, signedIn bool
		inner := access.Values(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, access.MayChange(r), " ", access.Peer(r))
		}))
		port := serveAll(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			needs, signedIn = access.NeedsSignIn(r), access.SignedIn(r)
			if access.MayChange(r) {
				t.Error("a request that was not let in may change something")
			}
			inner.ServeHTTP(w, r)
		}))
		if tt.session {
			session, _ := access.token.begin(goodToken, time.Now())
			tt.header = map[string]string{"Cookie": "weir_session_" + port + "=" + session}
		}
		_, body := asked{method: "GET", to: tt.to, path: "/", header: tt.header, want: tt.want}.send(t, port)
		if needs != tt.needs || signedIn != tt.session {
			t.Errorf("%+v: needs to sign in: %t, signed in: %t", tt, needs, signedIn)
		}
		if tt.want == 200 && (!strings.HasPrefix(body, fmt.Sprintf("%t %s:", tt.may, tt.to)) || !strings.HasSuffix(body, " by "+string(tt.by))) {
			t.Errorf("%+v: got %s", tt, body)
		}
	}
}
