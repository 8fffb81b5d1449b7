package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/testenv"
)

func TestAddresses(t *testing.T) {
	for server, want := range map[string]string{
		"127.0.0.1:6070": "http://127.0.0.1:6070", "weir:7000": "http://weir:7000", "weir": "http://weir:6070", ":6070": "http://127.0.0.1:6070",
		"[::1]:6070": "http://[::1]:6070", "[::1]": "http://[::1]:6070", "http://weir": "http://weir", "https://weir:1/": "https://weir:1", "https://weir/debug/": "https://weir/debug",
		"": "", "http://": "", "ftp://weir": "", "http://u:swordfish@weir": "", "u:swordfish@weir": "", "weir:http": "", "weir?a=b": "", "http://weir/#a": "", "::1": "", "a b": "", "unix:/a": "",
		"http://\x1b[31m": "", "http://weir/?": "",
	} {
		c, err := New(Options{Server: server})
		got := ""
		if err == nil {
			got = c.server
		}
		if got != want || err != nil && (strings.Contains(err.Error(), "swordfish") || want != "") {
			t.Errorf("%q: got %q (error: %v), want %q", server, got, err, want)
		}
	}
}

// plain returns a handler that answers with a code and a text.
func plain(code int, text string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
}

// TestBadAnswers checks that each kind of failure has a message of one sentence.
func TestBadAnswers(t *testing.T) {
	large := func(w http.ResponseWriter, _ *http.Request) {
		for range maxAnswer/(1<<20) + 2 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}
	greeting := func(w http.ResponseWriter, _ *http.Request) { // as a gRPC server sends it
		conn, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(conn, "\x00\x00\x06\x04\x1b[31m\r\n\r\n")
		conn.Close()
	}
	const noWeir = "SERVER is not the debug port of a Weir server: it does not answer /status as Weir does"
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // error of GET /status; SERVER stands for the server's URL
		kind    error
	}{
		{"forbidden", plain(403, "served to 127.0.0.1 only, see ADMIN_TOKEN_FILE\n"), "status 403 from the server at SERVER: served to 127.0.0.1 only, see ADMIN_TOKEN_FILE", nil},
		{"no reason", plain(500, ""), "status 500 from the server at SERVER: no reason given", nil},
		{"hostile reason", plain(500, "\x1b[31m\xff\nsecond line"), `status 500 from the server at SERVER: \x1b[31m\xff`, nil},
		{"long reason", plain(500, strings.Repeat("x", 10_000)), "status 500 from the server at SERVER: " + strings.Repeat("x", 499) + "…", nil},
		{"redirect", plain(307, "", "Location", "/other"), "status 307 from the server at SERVER: no reason given", nil},
		{"text", plain(200, "OK"), noWeir, nil},
		{"nothing", plain(200, ""), noWeir, nil},
		{"other JSON", plain(200, `{"status":"ok"}`), noWeir, nil},
		{"other types", plain(200, `{"version":1}`), noWeir, nil},
		{"large", large, noWeir, nil},
		{"no HTTP", greeting, `cannot reach the server at SERVER: malformed HTTP response "\x00\x00\x06\x04\x1b[31m"`, ErrUnreachable},
		{"cut", plain(200, "", "Content-Length", "100"), "cannot reach the server at SERVER: unexpected EOF", ErrUnreachable},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "cannot reach the server at SERVER: no answer within 100ms", ErrUnreachable},
		{"interrupted", nil, "context canceled at SERVER: interrupted", context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := Options{Server: server.URL, Timeout: 30 * time.Second}
			switch tt.name {
			case "slow":
				o.Timeout = 100 * time.Millisecond
			case "interrupted":
				cancel()
			}
			_, err := testenv.Must(New(o))(t).Ask(ctx, Status{})
			want := strings.ReplaceAll(tt.want, "SERVER", server.URL)
			if err == nil || err.Error() != want || tt.kind != nil && !errors.Is(err, tt.kind) || tt.kind == nil && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnauthorized)) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// TestWithoutRedis asks a server for the lists of all servers while Redis fails. It answers with its own lists.
func TestWithoutRedis(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("servers") == "all" {
			plain(503, "the other servers cannot be asked")(w, r)
			return
		}
		plain(200, `{"servers":1,"note":"no such domain"}`)(w, r)
	}))
	defer server.Close()
	c := testenv.Must(New(Options{Server: server.URL, Timeout: 30 * time.Second}))(t)
	for _, q := range []Question{Denials{}, Top{}, Top{Budgets: true}, Exceptions{}} {
		a, err := c.Ask(t.Context(), q)
		if want := "only the server that was asked is shown: status 503 from the server at " + server.URL + ": the other servers cannot be asked"; err != nil || a.Note != want {
			t.Errorf("%+v: got note %s, error %v, want %s", q, a.Note, err, want)
		}
	}
}

// TestTLS connects to a server with a certificate of a private authority.
func TestTLS(t *testing.T) {
	encrypted, unencrypted := httptest.NewUnstartedServer(plain(200, `{"version":"v1"}`)), httptest.NewServer(plain(200, "{}"))
	defer unencrypted.Close()
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	known := x509.NewCertPool()
	known.AddCert(encrypted.Certificate())
	for _, tt := range []struct {
		server string
		cas    *x509.CertPool
		want   string
	}{
		{encrypted.URL, known, ""},
		{encrypted.URL, nil, "x509: certificate signed by unknown authority"},
		{strings.Replace(encrypted.URL, "127.0.0.1", "localhost", 1), known, "x509: certificate is valid for "},
		{strings.Replace(encrypted.URL, "https", "http", 1), known, "Client sent an HTTP request to an HTTPS server."},
		{strings.Replace(unencrypted.URL, "http", "https", 1), nil, "HTTP response to HTTPS client"},
	} {
		c := testenv.Must(New(Options{Server: tt.server, CAs: tt.cas, Timeout: 30 * time.Second}))(t)
		if _, err := c.Ask(t.Context(), Status{}); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %s", tt.server, err, tt.want)
		}
	}
}

// TestRequest checks that the token is in a header only, and that an ID with any bytes is in the path.
func TestRequest(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	c := testenv.Must(New(Options{Server: server.URL + "/weir/", Token: "swordfish", UserAgent: "weir/v1", Timeout: 30 * time.Second}))(t)
	testenv.Must(c.Ask(t.Context(), Remove{"a/../b?\xff", By{"o p&s"}}))(t)
	testenv.Equal(t, got.RequestURI, "/weir/exceptions/a%2F..%2Fb%3F%FF?by=o+p%26s", "URI")
	if got.Header.Get("Authorization") != "Bearer swordfish" || got.Header.Get("User-Agent") != "weir/v1" || got.Method != http.MethodDelete {
		t.Errorf("got %s %v", got.Method, got.Header)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 0: "0 s", time.Microsecond: "1 ms", 999 * time.Millisecond: "999 ms", time.Second: "1 s", 119 * time.Second: "119 s",
		2 * time.Minute: "2 min", 41*time.Minute + 29*time.Second: "41 min", 2*time.Hour - time.Second: "2 h", 3 * time.Hour: "3 h", 3*time.Hour + 2*time.Minute: "3 h 2 min",
		47 * time.Hour: "47 h", 49 * time.Hour: "2 days", math.MaxInt64: "106751 days",
	} {
		testenv.Equal(t, operators.Span(d), want, "%v", d)
	}
	for _, s := range []float64{math.NaN(), math.Inf(1), 1e300, -1e300, math.Inf(-1)} {
		if d := operators.Seconds(s); d < 0 {
			t.Errorf("%v: got %v", s, d)
		}
	}
}

// TestLift suggests an exception only where it lets a request pass.
func TestLift(t *testing.T) {
	full := operators.Counter{Amount: 5, Used: 5}
	with := func(change func(*operators.Counter)) operators.Counter {
		c := full
		change(&c)
		return c
	}
	quota := with(func(c *operators.Counter) { c.Mode = "quota_mode" })
	free := with(func(c *operators.Counter) { c.Mode, c.Remaining = "quota_mode", 1 })
	grouped := with(func(c *operators.Counter) { c.Mode, c.Grouped = "quota_mode", true })
	for name, tt := range map[string]struct {
		limits []operators.Counter
		want   string
	}{
		"full":              {[]operators.Counter{full}, "--amount 10x"},
		"room":              {[]operators.Counter{with(func(c *operators.Counter) { c.Remaining = 1 })}, ""},
		"banned":            {[]operators.Counter{with(func(c *operators.Counter) { c.Remaining, c.BannedFor = 1, 9 })}, "--amount 10x"},
		"shadow mode":       {[]operators.Counter{with(func(c *operators.Counter) { c.Mode = "shadow_mode" })}, ""},
		"unlimited":         {[]operators.Counter{with(func(c *operators.Counter) { c.Unlimited = true })}, ""},
		"replaced":          {[]operators.Counter{with(func(c *operators.Counter) { c.Replaced = true })}, ""},
		"a free quota":      {[]operators.Counter{quota, free}, ""},
		"full quotas":       {[]operators.Counter{quota, quota}, "--amount 10x"},
		"a full group":      {[]operators.Counter{grouped, free}, "--amount 10x"},
		"an amount of 0":    {[]operators.Counter{full, {}}, "--allow"},
		"far over its size": {[]operators.Counter{with(func(c *operators.Counter) { c.Used = 50 })}, "--allow"},
	} {
		testenv.Equal(t, lift(tt.limits), tt.want, "%s", name)
	}
}

// TestBlocks checks that a terminal gets the bar of an hour, and other output all minutes instead.
func TestBlocks(t *testing.T) {
	a := Answer{text: "counters", Value: &operators.Counters{Servers: 1, Denials: []operators.LastDenial{{
		Key: operators.Key{Minutes: slices.Repeat([]operators.Minute{{Denied: 1}, {Denied: 8}}, 15)},
	}}}}
	a.Now = time.Time{}.Add(30*time.Minute - time.Second)
	t.Setenv("NO_COLOR", "1")
	for terminal, minutes := range map[bool]int{true: 10, false: 30} {
		var text strings.Builder
		a.Terminal = terminal
		testenv.OK(t, a.WriteText(&text))
		bar := "  1 hour ago |" + strings.Repeat(" ", 30) + strings.Repeat("▁█", 15) + "| now\n"
		if strings.Contains(text.String(), bar) != terminal || strings.Count(text.String(), "\n  00:") != minutes {
			t.Errorf("on a terminal is %v: got\n%s", terminal, &text)
		}
	}
}

func TestWords(t *testing.T) {
	v := operators.Times{Now: time.Date(2026, 8, 1, 3, 0, 0, 0, time.FixedZone("CEST", 7200))}
	for _, tt := range []struct{ got, want string }{
		{v.Since(v.Now.Add(-time.Hour).UTC()), "since 02:00:00 CEST (60 min)"},
		{v.Ago(v.Now.Add(-4 * time.Hour)), "2026-07-31 23:00:00 CEST (4 h ago)"},
		{v.Until(v.Now), "until 03:00:00 CEST (expired)"},
		{count(10, 0), "10"}, {count(10, 3), "7 to 10"}, {count(10, 11), "0 to 10"},
		{limit("minute", "5 per minute"), "5 per minute"}, {limit("logins", "5 per minute"), "logins, 5 per minute"}, {limit("unlimited", ""), "unlimited"},
		{api.Short("\x1b\x1b", 8), `\x1b\x1b`}, {api.Short("\x1b\x1b", 7), `\x1b\x…`}, {api.Short(strings.Repeat("ö", 10_000), 3), "öö…"}, {api.Short("größer", 6), "größer"},
		{blocks([]operators.Bar{{Place: 59, Height: 1}, {Place: 58, Height: 0.5}, {Place: 0, Height: 0.01}}), "▁" + strings.Repeat(" ", 57) + "▄█"},
	} {
		testenv.Equal(t, tt.got, tt.want, "text")
	}
}
