package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/descriptors/plaintext"
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

// plain answers with a code and text.
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

// TestBadAnswers has one sentence for each way to get no answer.
func TestBadAnswers(t *testing.T) {
	large := func(w http.ResponseWriter, _ *http.Request) {
		for range maxAnswer/(1<<20) + 2 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}
	const noWeir = "SERVER is not the debug port of a Weir server: it does not answer /status as Weir does"
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // of GET /status, SERVER is its URL
		kind    error
	}{
		{"unknown thing", plain(404, "there is no exception \"x\"\n"), `not found by the server at SERVER: there is no exception "x"`, ErrNotFound},
		{"no token", plain(401, "the token is missing or invalid\n"), "refused by the server at SERVER: the token is missing or invalid", ErrUnauthorized},
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
		{"cut", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "100") }, "cannot reach the server at SERVER: unexpected EOF", ErrUnreachable},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "cannot reach the server at SERVER: no answer within 100ms", ErrUnreachable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			o := Options{Server: server.URL, Timeout: 30 * time.Second}
			if tt.name == "slow" {
				o.Timeout = 100 * time.Millisecond
			}
			_, err := testenv.Must(New(o))(t).Ask(t.Context(), Status{})
			want := strings.ReplaceAll(tt.want, "SERVER", server.URL)
			if err == nil || err.Error() != want || tt.kind != nil && !errors.Is(err, tt.kind) || tt.kind == nil && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnauthorized)) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// TestNoServer asks where nobody answers, or something else.
func TestNoServer(t *testing.T) {
	closed := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close()
	other := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer other.Close()
	go func() {
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "\x00\x00\x06\x04\x1b[31m\r\n\r\n") // as gRPC greets
			conn.Close()
		}
	}()
	for server, want := range map[string]string{
		closed.Addr().String():             "connection refused",
		"nobody.invalid:1":                 "no such host",
		other.Addr().String():              "cannot reach the server at ",
		"https://" + other.Addr().String(): "cannot reach the server at ",
	} {
		c := testenv.Must(New(Options{Server: server, Timeout: 30 * time.Second}))(t)
		_, err := c.Ask(t.Context(), Status{})
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), want) || plaintext.Line(err.Error()) != err.Error() || strings.Count(err.Error(), server) != 1 {
			t.Errorf("%s: got %v, want %s", server, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, _ := New(Options{Server: closed.Addr().String(), Timeout: time.Second})
	if _, err := c.Ask(ctx, Status{}); err == nil || !strings.HasSuffix(err.Error(), ": interrupted") {
		t.Errorf("interrupted: got %v", err)
	}
}

// TestTLS asks a server whose certificate comes from an authority of its own.
func TestTLS(t *testing.T) {
	authority := testenv.NewAuthority(t)
	start := func(names ...string) *httptest.Server {
		certPEM, keyPEM := authority.Issue(t, names...)
		pair := testenv.Must(tls.X509KeyPair(certPEM, keyPEM))(t)
		server := httptest.NewUnstartedServer(plain(200, `{"version":"v1"}`))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	server, named := start("127.0.0.1"), start("weir.example")
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(authority.PEM())
	for _, tt := range []struct {
		server string
		cas    *x509.CertPool
		want   string
	}{
		{server.URL, known, ""},
		{server.URL, nil, "x509: certificate signed by unknown authority"},
		{named.URL, known, "x509: cannot validate certificate for "},
		{strings.Replace(server.URL, "https", "http", 1), known, "Client sent an HTTP request to an HTTPS server."},
	} {
		c, err := New(Options{Server: tt.server, CAs: tt.cas, Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Ask(t.Context(), Status{}); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %s", tt.server, err, tt.want)
		}
	}
	plainServer := httptest.NewServer(plain(200, "{}"))
	defer plainServer.Close()
	c, _ := New(Options{Server: strings.Replace(plainServer.URL, "http", "https", 1), Timeout: 30 * time.Second})
	if _, err := c.Ask(t.Context(), Status{}); err == nil || !strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		t.Errorf("HTTPS to HTTP: got %v", err)
	}
}

// TestRequest sends the token in a header alone, and any bytes of an ID.
func TestRequest(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	c := testenv.Must(New(Options{Server: server.URL + "/weir/", Token: "swordfish", UserAgent: "weir/v1", Timeout: 30 * time.Second}))(t)
	testenv.Must(c.Ask(t.Context(), Remove{"a/../b?\xff", By{"o p&s"}}))(t)
	if want := "/weir/exceptions/a%2F..%2Fb%3F%FF?by=o+p%26s"; got.RequestURI != want {
		t.Errorf("got %s, want %s", got.RequestURI, want)
	}
	if got.Header.Get("Authorization") != "Bearer swordfish" || got.Header.Get("User-Agent") != "weir/v1" || got.Method != http.MethodDelete {
		t.Errorf("got %s %v", got.Method, got.Header)
	}
}
