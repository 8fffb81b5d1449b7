package api

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/testenv"
)

const goodToken = "correct-horse-battery-staple-0123"

// withToken returns an Access with a token, or without one if token is empty, that logs to log.
func withToken(t *testing.T, token string, log io.Writer) *Access {
	t.Helper()
	path := ""
	if token != "" {
		path = testenv.File(t, "token", token)
	}
	return testenv.Must(NewAccess(path, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(log, nil))))(t)
}

// serveAll serves handler on all addresses of this machine, and returns the port.
func serveAll(t *testing.T, handler http.Handler) (port string) {
	t.Helper()
	listener := testenv.Must(net.Listen("tcp", ":0"))(t)
	s := &http.Server{Handler: handler}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port
}

// asked is a request with the expected status.
type asked struct {
	route, to string // such as GET /; the address of the server
	host      string // header Host, or "" for the address
	header    map[string]string
	form      url.Values
	want      int
}

// send sends a request and checks the status. It follows no redirect.
func (a asked) send(t *testing.T, port string) (header http.Header, body string) {
	t.Helper()
	method, path, _ := strings.Cut(a.route, " ")
	r := testenv.Must(http.NewRequestWithContext(t.Context(), method, "http://"+net.JoinHostPort(a.to, port)+path, strings.NewReader(a.form.Encode())))(t)
	if a.host != "" {
		r.Host = strings.ReplaceAll(a.host, "PORT", port)
	}
	if a.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range a.header {
		r.Header.Set(name, strings.ReplaceAll(value, "PORT", port))
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Errorf("%+v: %v", a, err)
		return http.Header{}, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != a.want {
		t.Errorf("%s at %s, Host %q, %v: got %d %.200q, want %d (error: %v)", a.route, a.to, a.host, a.header, response.StatusCode, text, a.want, err)
	}
	return response.Header, string(text)
}

func bearing(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// ipv6 is ::1 if this machine has it, otherwise 127.0.0.1.
func ipv6() string {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return "127.0.0.1"
	}
	listener.Close()
	return "::1"
}

// TestClassesOfRoutes lists the class of each route, and sends requests that are not local.
func TestClassesOfRoutes(t *testing.T) {
	known := map[string]Class{
		"GET /": Open, "GET /status": Open, "GET /stats": Open,
		"GET /rlconfig": Values, "GET /denials": Values, "GET /budgets": Values, "GET /debug/pprof/": Values, "GET /debug/pprof/symbol": Values, "POST /peek": Values, "GET /exceptions": Values, "GET /assigned": Values,
		"POST /-/reload": Changes, "POST /reset": Changes, "POST /exceptions": Changes, "DELETE /exceptions/x": Changes, "PUT /assigned": Changes, "POST /assigned": Changes, "DELETE /assigned": Changes,
	}
	outer := testenv.OuterAddr(t)
	for _, token := range []string{"", goodToken} {
		server := testServer(t, withToken(t, token, io.Discard))
		for _, e := range server.endpoints() {
			route := cmp.Or(e.Method, "GET") + " " + strings.Replace(e.Path, "{id}", "x", 1)
			if class, ok := known[route]; !ok || class != e.Class {
				t.Errorf("%s is in no list, or another one", route)
			}
		}
		port := serveAll(t, server.Handler())
		refused, reason := http.StatusForbidden, "without ADMIN_TOKEN_FILE this is served only to 127.0.0.1 and ::1, for example by kubectl port-forward, and not to a proxy or under another name\n"
		whom := "(from this machine)"
		if token != "" {
			whom = "(with the token, or from this machine)"
			refused, reason = http.StatusUnauthorized, "the token is missing or invalid\n"
		}
		_, list := asked{route: "GET /", to: outer, want: http.StatusOK}.send(t, port)
		if !strings.Contains(list, "\nGET    /rlconfig        the rules in use "+whom+"\n") || !strings.Contains(list, "\nGET    /stats           the metrics\n") {
			t.Errorf("got the list\n%s", list)
		}
		for route, class := range known {
			if class == Open {
				asked{route: route, to: outer, want: http.StatusOK}.send(t, port)
				continue
			}
			header, body := asked{route: route, to: outer, want: refused}.send(t, port)
			if body != reason || (header.Get("WWW-Authenticate") != "") != (refused == http.StatusUnauthorized) {
				t.Errorf("%s: %v %s", route, header, body)
			}
		}
	}
}

// TestWhoMay requests a page with values and a change, with every kind of access.
func TestWhoMay(t *testing.T) {
	outer, six := testenv.OuterAddr(t), ipv6()
	const page, change = "GET /rlconfig", "POST /-/reload"
	crossSite := map[string]string{"Sec-Fetch-Site": "cross-site"}
	link := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	with := func(token string, name, value string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + token, name: value}
	}
	ports := map[string]string{}
	for _, token := range []string{"", goodToken} {
		server := testServer(t, withToken(t, token, io.Discard))
		server.Console = []Endpoint{{Method: "GET", Path: "/console/{$}", Class: Values, Handler: func(http.ResponseWriter, *http.Request) {}}}
		ports[token] = serveAll(t, server.Handler())
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
		{"", page, outer, "", bearing(goodToken), 403}, // an empty token is invalid

		// Host names that a web page cannot resolve to 127.0.0.1, and others.
		{"", page, "127.0.0.1", "localhost:PORT", nil, 200}, {"", page, "127.0.0.1", "LocalHost", nil, 200},
		{"", change, "127.0.0.1", "[::1]:PORT", nil, 200}, {"", change, "127.0.0.1", "192.0.2.1", nil, 200},
		{"", page, "127.0.0.1", "evil.example:PORT", nil, 403}, {"", change, "127.0.0.1", "evil.example", nil, 403},
		{"", page, "127.0.0.1", "localhost.evil.example", nil, 403}, {"", page, "127.0.0.1", "127.0.0.1.evil.example", nil, 403},
		{"", page, six, "weir", nil, 403},

		// Requests through proxies on this machine.
		{"", page, "127.0.0.1", "", map[string]string{"X-Forwarded-For": "192.0.2.1"}, 403},
		{"", change, "127.0.0.1", "", map[string]string{"Forwarded": "for=127.0.0.1"}, 403},
		{"", page, "127.0.0.1", "", map[string]string{"X-Forwarded-Host": "weir"}, 403}, {"", change, "127.0.0.1", "", map[string]string{"x-forwarded-proto": "https"}, 403},
		{goodToken, page, "127.0.0.1", "", map[string]string{"X-Forwarded-Host": "weir"}, 401},
		{"", page, "127.0.0.1", "", map[string]string{"X-Real-IP": "192.0.2.1"}, 403}, {"", change, "127.0.0.1", "", map[string]string{"Via": "1.1 proxy"}, 403},

		// Requests from pages of other sites.
		{"", page, "127.0.0.1", "", crossSite, 403}, {"", change, "127.0.0.1", "", crossSite, 403},
		{"", page, "127.0.0.1", "", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"", change, "127.0.0.1", "", map[string]string{"Origin": "http://evil.example"}, 403}, {"", change, "127.0.0.1", "", map[string]string{"Origin": "null"}, 403},
		{"", change, "127.0.0.1", "", map[string]string{"Origin": "http://127.0.0.1:PORT"}, 200},
		{"", change, "127.0.0.1", "", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200}, {"", page, "127.0.0.1", "", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"", page, "127.0.0.1", "", link, 403}, {"", "GET /console/", "127.0.0.1", "", link, 200},

		{goodToken, page, outer, "", bearing(goodToken), 200}, {goodToken, change, outer, "", bearing(goodToken), 200},
		{goodToken, change, outer, "weir.example", bearing(goodToken), 200},
		{goodToken, change, outer, "", map[string]string{"Authorization": "bearer  " + goodToken + " "}, 200},
		{goodToken, page, outer, "", nil, 401}, {goodToken, change, outer, "", nil, 401},
		{goodToken, page, outer, "", bearing("wrong"), 401}, {goodToken, change, outer, "", bearing(goodToken + "x"), 401},
		{goodToken, change, outer, "", bearing(goodToken[:32]), 401}, {goodToken, change, outer, "", bearing(""), 401},
		{goodToken, change, outer, "", map[string]string{"Authorization": "Basic " + goodToken}, 401}, {goodToken, change, outer, "", map[string]string{"Authorization": goodToken}, 401},
		{goodToken, page, "127.0.0.1", "", nil, 200}, {goodToken, change, "127.0.0.1", "", nil, 401},
		{goodToken, page, "127.0.0.1", "evil.example", nil, 401}, {goodToken, change, "127.0.0.1", "weir.example", bearing(goodToken), 200},
		{goodToken, page, "127.0.0.1", "", bearing("wrong"), 401},
		{goodToken, change, "127.0.0.1", "", with(goodToken, "Sec-Fetch-Site", "cross-site"), 403}, {goodToken, page, outer, "", with(goodToken, "Sec-Fetch-Site", "cross-site"), 403},
	} {
		header, body := asked{route: tt.route, to: tt.to, host: tt.host, header: tt.header, want: tt.want}.send(t, ports[tt.token])
		if tt.want != 200 && strings.Contains(body, secret) || tt.want == 200 && header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %v %s", tt, header, body)
		}
	}
}

// TestTokenFiles reads valid and invalid files. No error contains their text.
func TestTokenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	const shortest, form = "0123456789abcdef0123456789abcdef", "the token must be 32 to 1024 visible ASCII characters"
	for text, problem := range map[string]string{
		" \t" + shortest + "\r\n": "", strings.Repeat("x", 1024): "",
		"\n\n": "it is empty", shortest + "\n" + shortest: "it has several lines",
		shortest[1:]: form, shortest + " " + shortest: form, "\xef\xbb\xbf" + shortest: form, strings.Repeat("x", 1025): form,
	} {
		testenv.Write(t, path, text)
		got, err := readToken(path)
		switch {
		case problem == "" && (err != nil || got != strings.TrimSpace(text)):
			t.Errorf("%.30q: got %.30q, error %v", text, got, err)
		case problem != "" && (err == nil || !strings.HasPrefix(err.Error(), path+": "+problem) || strings.Contains(err.Error(), "123456789a")):
			t.Errorf("%.30q: got error %v, want %q", text, err, problem)
		}
	}
}

// TestCookie signs in as a browser does, until the token changes.
func TestCookie(t *testing.T) {
	outer, log := testenv.OuterAddr(t), new(testenv.Log)
	path := testenv.File(t, "token", goodToken)
	access := testenv.Must(NewAccess(path, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(log, nil))))(t)
	server := testServer(t, access)
	server.Logger = access.logger
	server.Console = []Endpoint{
		{Path: "/console/signin", Handler: func(w http.ResponseWriter, r *http.Request) {
			if !access.SignIn(w, r) {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}},
		{Path: "/console/signout", Handler: access.SignOut},
	}
	port := serveAll(t, server.Handler())
	signIn := func(token string, header map[string]string, want int) http.Header {
		t.Helper()
		got, _ := asked{route: "POST /console/signin", to: outer, form: url.Values{"token": {token}}, header: header, want: want}.send(t, port)
		testenv.Equal(t, got.Get("Set-Cookie") != "", want == 200, "there is a cookie in %v", got)
		return got
	}
	signIn("", nil, 401)
	signIn("wrong", nil, 401)
	signIn(goodToken, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403)
	asked{route: "POST /console/signin?token=" + goodToken, to: outer, want: 401}.send(t, port)
	got := signIn(goodToken, nil, 200)
	name, rest, _ := strings.Cut(got.Get("Set-Cookie"), "=")
	value, attributes, _ := strings.Cut(rest, "; ")
	if name != "weir_token_"+port || strings.Contains(value, "horse") || !regexp.MustCompile(`^\d{19}-[0-9a-f]{64}$`).MatchString(value) || attributes != "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict" {
		t.Errorf("got %v", got)
	}
	log.WaitFor(t, `msg="signed in to the console" audit=true peer=`+outer+":")
	testenv.Contains(t, signIn(goodToken, map[string]string{"X-Forwarded-Proto": "https"}, 200).Get("Set-Cookie"), "; Secure")

	cookie := map[string]string{"Cookie": name + "=" + value}
	for _, tt := range []asked{
		{route: "POST /-/reload", header: cookie, want: 200},
		{route: "GET /rlconfig", header: cookie, want: 200},
		{route: "POST /-/reload", header: map[string]string{"Cookie": name + "=" + value, "Sec-Fetch-Site": "cross-site"}, want: 403},
		{route: "GET /rlconfig", header: map[string]string{"Cookie": name + "=" + strings.Repeat("a", 64)}, want: 401},
		{route: "GET /rlconfig", header: map[string]string{"Cookie": name + "=" + goodToken}, want: 401},
		{route: "GET /rlconfig", header: bearing(value), want: 401},
		{route: "POST /console/signout", header: map[string]string{"Cookie": name + "=" + value, "Origin": "http://evil.example"}, want: 403},
	} {
		tt.to = outer
		tt.send(t, port)
	}
	log.WaitFor(t, `msg="the rules are loaded on request" audit=true peer="`+outer+":")
	log.WaitFor(t, ` by cookie"`)

	// A cookie becomes invalid after its time, or when its browser signs out. Other cookies stay valid.
	expired := name + "=" + access.signed(fmt.Sprint(time.Now().UnixNano()))
	asked{route: "GET /rlconfig", to: outer, header: map[string]string{"Cookie": expired}, want: 401}.send(t, port)
	other := access.signed(fmt.Sprint(time.Now().Add(time.Hour).UnixNano()))
	header, _ := asked{route: "POST /console/signout", to: outer, header: cookie, want: 200}.send(t, port)
	testenv.Contains(t, header.Get("Set-Cookie"), "Max-Age=0")
	asked{route: "GET /rlconfig", to: outer, header: cookie, want: 401}.send(t, port)
	cookie["Cookie"] = name + "=" + other
	asked{route: "GET /rlconfig", to: outer, header: cookie, want: 200}.send(t, port)

	go access.Token.Run(t.Context())
	testenv.Write(t, path, "another-"+goodToken)
	access.Token.Renew(t.Context())
	asked{route: "GET /rlconfig", to: outer, header: cookie, want: 401}.send(t, port)
	asked{route: "GET /rlconfig", to: outer, header: bearing("another-" + goodToken), want: 200}.send(t, port)
	testenv.Equal(t, testutil.ToFloat64(access.failed), 4, "counted wrong tokens")
	if n := strings.Count(log.String(), "invalid token on the debug port"); n != 1 || strings.Contains(log.String(), "horse") {
		t.Errorf("there are %d lines of log, want 1 a minute without the token:\n%s", n, log)
	}
}
