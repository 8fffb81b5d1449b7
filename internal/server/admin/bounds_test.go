package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/descriptors/plaintext"
	"weir/internal/testenv"
)

// serveOn serves handler on a port of the system, for at most so many connections.
func serveOn(t *testing.T, handler http.Handler, connections int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(handler, connections, slog.New(slog.DiscardHandler))
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	return listener.Addr().String()
}

// connect opens a connection from an address of this machine and sends text.
func connect(t *testing.T, from, addr, text string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, text)
	return conn
}

const request = "GET / HTTP/1.1\r\nHost: weir\r\n\r\n"

// status is that of the next answer on a connection.
func status(conn net.Conn) (int, error) {
	response, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // to close it is to read it to its end
	if err != nil {
		return 0, err
	}
	return response.StatusCode, nil
}

// TestGate has two places, which one client takes.
func TestGate(t *testing.T) {
	entered := make(chan string)
	gate := newGate("pages", 2, time.Hour).around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- host(r.RemoteAddr)
		<-r.Context().Done() // until the client has gone or is cut off
	}))
	addr := serveOn(t, gate, 100)
	first := connect(t, "127.0.0.1", addr, request)
	<-entered
	connect(t, "127.0.0.1", addr, request)
	<-entered
	if code, err := status(connect(t, "127.0.0.1", addr, request)); code != 503 {
		t.Errorf("a third request of the same client: got %d (error: %v), want 503", code, err)
	}
	connect(t, "127.0.0.2", addr, request)
	if from := <-entered; from != "127.0.0.2" {
		t.Errorf("%s came in", from)
	}
	if _, err := io.ReadAll(first); errors.Is(err, net.ErrClosed) {
		t.Errorf("the first request was not cut off: %v", err)
	}
	if code, err := status(connect(t, "127.0.0.3", addr, request)); code != 503 {
		t.Errorf("a third client: got %d (error: %v), want 503", code, err)
	}
}

// TestGateTakesPlacesFromTheSlow lets a second request in when the time of the first
// is over.
func TestGateTakesPlacesFromTheSlow(t *testing.T) {
	cut := make(chan struct{}, 2)
	addr := serveOn(t, newGate("pages", 1, time.Nanosecond).around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				cut <- struct{}{}
				return
			}
		}
	})), 100)
	if code, err := status(connect(t, "127.0.0.1", addr, request)); code != 200 {
		t.Fatalf("got %d (error: %v)", code, err)
	}
	if code, err := status(connect(t, "127.0.0.1", addr, request)); code != 200 {
		t.Errorf("the second got %d (error: %v), want the place of the first", code, err)
	}
	select {
	case <-cut:
	case <-time.After(time.Minute):
		t.Error("the first is not cut off")
	}
}

// TestConnectionsAreBounded opens more than are allowed, which do nothing.
func TestConnectionsAreBounded(t *testing.T) {
	const most = 10
	addr := serveOn(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}), most)
	first := connect(t, "127.0.0.1", addr, "")
	probe := connect(t, "127.0.0.2", addr, "")
	for range 3 * most {
		connect(t, "127.0.0.1", addr, "GET / HTTP/1.1\r\n") // and no end of the headers
	}
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("the first connection is still open")
	}
	if code, err := status(connect(t, "127.0.0.3", addr, request)); code != 200 {
		t.Errorf("a new client gets %d (error: %v)", code, err)
	}
	fmt.Fprint(probe, request)
	if code, err := status(probe); code != 200 {
		t.Errorf("a client with one connection lost it to one with many: %d (error: %v)", code, err)
	}
}

// TestRequestsAreBounded asks for more than an operator needs.
func TestRequestsAreBounded(t *testing.T) {
	debug := Debug{
		Status: func() Status { return Status{} }, Rules: func(io.Writer) error { return nil },
		Metrics: NewMetrics(registryWith("hits")), Access: withoutToken(t),
	}
	for path, want := range map[string]int{
		"/debug/pprof/profile?seconds=61":         400,
		"/debug/pprof/profile?seconds=NaN":        400,
		"/debug/pprof/trace?seconds=10.5":         400,
		"/debug/pprof/heap?seconds=1000":          400,
		"/debug/pprof/heap?debug=1":               200,
		"/debug/pprof/heap?gc=1":                  400,
		"/?" + strings.Repeat("x", 2*headerBytes): 431,
		"/stats?" + strings.Repeat("x", 1000):     200,
	} {
		addr := serveOn(t, debug.Handler(), 10)
		if code, err := status(connect(t, "127.0.0.1", addr, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")); code != want {
			t.Errorf("%.40s: got %d (error: %v), want %d", path, code, err, want)
		}
	}
}

// TestOneProfileAtATime takes a second profile during a first.
func TestOneProfileAtATime(t *testing.T) {
	addr := serveOn(t, Debug{Metrics: NewMetrics(registryWith("hits")), Access: withoutToken(t)}.Handler(), 10)
	path := "/debug/pprof/trace?seconds=10"
	long := connect(t, "127.0.0.1", addr, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testenv.Eventually(t, func() error {
		code, err := status(connect(t, "127.0.0.2", addr, "GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		if code != 503 {
			err = fmt.Errorf("a second profile at a time: got %d (error: %v), want 503", code, err)
		}
		return err
	})
	long.Close()
}

// TestProfilesPause takes one profile after the other.
func TestProfilesPause(t *testing.T) {
	debug := Debug{Metrics: NewMetrics(registryWith("hits")), Access: withoutToken(t)}.Handler()
	for i, want := range []int{200, 503, 503} {
		if code, _, body := get(debug, "GET", "/debug/pprof/goroutine?debug=2"); code != want {
			t.Errorf("profile %d: got %d %.100s, want %d", i, code, body, want)
		}
	}
	w := ask(debug, "GET", "/debug/pprof/heap", "")
	if after := w.Header().Get("Retry-After"); w.Code != 503 || after == "" || after > "5" {
		t.Errorf("got %d, Retry-After %q, want 503 and 5 at most", w.Code, after)
	}
	if code, _, _ := get(debug, "GET", "/debug/pprof/"); code != 200 {
		t.Errorf("the list of profiles: got %d", code)
	}
	short := profiles(time.Millisecond)
	for range 2 {
		testenv.Eventually(t, func() error {
			if code, _, _ := get(short, "GET", "/debug/pprof/heap"); code != 200 {
				return fmt.Errorf("got %d after the pause", code)
			}
			return nil
		})
	}
}

// TestGateKeepsAPlaceForWhoWasServed has more readers than there are places, each of
// an address of its own, and another one that was served before.
func TestGateKeepsAPlaceForWhoWasServed(t *testing.T) {
	entered := make(chan string)
	gate := newGate("pages", 2, time.Hour).around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := host(r.RemoteAddr); host != "127.0.0.9" {
			entered <- host
			<-r.Context().Done()
		}
	}))
	addr := serveOn(t, gate, 100)
	if code, err := status(connect(t, "127.0.0.9", addr, request)); code != 200 {
		t.Fatalf("got %d (error: %v)", code, err)
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		connect(t, from, addr, request)
		<-entered
	}
	for round := range 3 {
		if code, err := status(connect(t, "127.0.0.9", addr, request)); code != 200 {
			t.Errorf("round %d: who was served gets %d (error: %v), want 200", round, code, err)
		}
		from := fmt.Sprintf("127.0.0.%d", 10+round)
		connect(t, from, addr, request)
		<-entered // in the place that has become free
		if code, err := status(connect(t, "127.0.0.20", addr, request)); code != 503 {
			t.Errorf("round %d: who was not served gets %d (error: %v), want 503", round, code, err)
		}
	}
}

func TestHosts(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "::ffff:192.0.2.1", "@": "@",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::1]:80": "2001:db8:1:2::/64", "[2001:db8:1:3::1]:80": "2001:db8:1:3::/64",
	} {
		if got := host(addr); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}

// TestLargeBodiesAreBounded sends bodies and never their ends.
func TestLargeBodiesAreBounded(t *testing.T) {
	reading := make(chan struct{}, 2*largeBodies)
	addr := serveOn(t, Service(func() error { return nil }, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reading <- struct{}{}
		_, _ = io.ReadAll(r.Body)
	})), 1000)
	post := func(length int) string {
		return fmt.Sprintf("POST /json HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n", length)
	}
	for range largeBodies {
		connect(t, "127.0.0.1", addr, post(smallBody+1))
	}
	for range largeBodies {
		<-reading
	}
	if code, err := status(connect(t, "127.0.0.1", addr, post(smallBody+1))); code != 503 {
		t.Errorf("one more large body: got %d (error: %v), want 503", code, err)
	}
	if code, err := status(connect(t, "127.0.0.1", addr, post(2)+"{}")); code != 200 {
		t.Errorf("a small body: got %d (error: %v), want 200", code, err)
	}
}

// TestPagesHoldNoControlCharacters shows what Redis, files and control planes wrote.
func TestPagesHoldNoControlCharacters(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\nhealth    OK\x00\xff\u202e"
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	page := func() Status {
		return Status{
			Health: errors.New(evil), Store: Store{Name: evil, Remote: true, FailingSince: at, FailedAt: at, Problem: evil},
			Rules: Rules{Path: evil, LoadedAt: at, FailedAt: at, Problems: evil, Version: evil, FailedVersion: evil, ControlPlane: &ControlPlane{Problem: evil}},
		}
	}
	works := page()
	works.Store.FailingSince, works.Store.WorkedAt, works.Rules.LoadedAt = time.Time{}, at, time.Time{}
	debug := Debug{Status: page, Metrics: NewMetrics(registryWith("hits")), Rules: func(io.Writer) error { return errors.New(evil) }, Access: withoutToken(t)}
	handler := debug.Handler()
	texts := []string{works.String()}
	for _, path := range []string{"/", "/rlconfig"} {
		_, _, body := get(handler, "GET", path)
		texts = append(texts, body)
	}
	for _, text := range texts {
		if plaintext.Lines(text) != text || !strings.Contains(text, `\x1b[2J\u009b31m`) {
			t.Errorf("got %q", text)
		}
		if !strings.HasPrefix(text, `\x1b`) && strings.Count(text, "\nhealth    OK") > 1 { // the one of Problems, which has lines
			t.Errorf("a line is forged:\n%s", text)
		}
	}
}

// TestMetricsAreRenderedOnce lets several ask at a time, with and without gzip.
func TestMetricsAreRenderedOnce(t *testing.T) {
	server := httptest.NewServer(NewMetrics(registryWith("hits")).At("/metrics"))
	defer server.Close()
	for _, plain := range []bool{false, true} {
		client := http.Client{Transport: &http.Transport{DisableCompression: plain, DisableKeepAlives: true}}
		response, err := client.Get(server.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.Uncompressed == plain || !strings.Contains(string(body), "\nhits 3\n") || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("plain %t: %s %q (error: %v)", plain, response.Header, body, err)
		}
	}
}
