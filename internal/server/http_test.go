package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"weir/internal/testenv"
)

const asksAlice = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`

// answered sends raw HTTP and returns the answer.
func answered(t *testing.T, addr, request string) (status int, header http.Header, body string) {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	testenv.Must(io.WriteString(conn, request))(t)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testenv.OK(t, err)
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body) // a reset may follow if the server did not read the full request
	return response.StatusCode, response.Header, string(text)
}

// TestServiceListener checks headers of answers and sends cross-origin requests, a header that is
// too large, and too many large bodies at a time.
func TestServiceListener(t *testing.T) {
	t.Parallel()
	f := start(t, "--config="+directory(t, limited(1000)))
	if _, header, body := answered(t, f.HTTPAddr(), "GET /healthcheck HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n"); body != "OK" || header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("/healthcheck: got %q, header %v", body, header)
	}
	for _, to := range []string{f.HTTPAddr() + "/healthcheck", f.HTTPAddr() + "/json", f.debug.addr() + "/", f.debug.addr() + "/stats", f.debug.addr() + "/status", f.debug.addr() + "/console/", f.debug.addr() + "/nowhere", f.metrics.addr() + "/metrics"} {
		addr, path, _ := strings.Cut(to, "/")
		if _, header, _ := answered(t, addr, "GET /"+path+" HTTP/1.1\r\nHost: "+addr+"\r\nConnection: close\r\n\r\n"); header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: header %v, want nosniff", to, header)
		}
	}
	for sent, want := range map[string]int{
		"": 200, "Sec-Fetch-Site: same-origin": 200, "Origin: http://weir": 200,
		"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Origin: http://evil.example": 403, "Origin: null": 403,
	} {
		request := fmt.Sprintf("POST /json HTTP/1.1\r\nHost: weir\r\n%s\r\nContent-Length: %d\r\n\r\n%s", cmp.Or(sent, "X-B: c"), len(asksAlice), asksAlice)
		if status, _, body := answered(t, f.HTTPAddr(), request); status != want {
			t.Errorf("/json with %q: got %d %q, want %d", sent, status, body, want)
		}
	}
	for _, addr := range []string{f.HTTPAddr(), f.debug.addr(), f.metrics.addr()} {
		if status, _, _ := answered(t, addr, "GET / HTTP/1.1\r\nHost: weir\r\nX-Large: "+strings.Repeat("x", 32<<10)+"\r\n\r\n"); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: a header of 32 KiB: got %d, want 431", addr, status)
		}
	}

	begin := fmt.Sprintf("POST /json HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n", smallBody+1)
	var held []net.Conn
	for range largeBodies { // the server waits for each body
		conn := testenv.Must(net.Dial("tcp", f.HTTPAddr()))(t)
		defer conn.Close()
		held = append(held, conn)
		testenv.Must(io.WriteString(conn, begin+"Expect: 100-continue\r\n\r\n"))(t)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("a large body among %d: got %q, error %v", largeBodies, line, err)
		}
	}
	status, header, body := answered(t, f.HTTPAddr(), begin+"\r\n"+strings.Repeat(" ", smallBody+1))
	if want := fmt.Sprintf("too many large requests at once; the limit is %d\n", largeBodies); status != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" || body != want {
		t.Errorf("one large body more: got %d, header %v, %q", status, header, body)
	}
	if code, body, err := f.request("POST", f.HTTPAddr(), "/json", asksAlice); code != 200 {
		t.Errorf("a small body meanwhile: got %d %q, error %v", code, body, err)
	}
	for _, conn := range held {
		conn.Close()
	}
	testenv.Becomes(t, "a large body after it", http.StatusOK, func() int {
		code, _, _ := f.request("POST", f.HTTPAddr(), "/json", asksAlice+strings.Repeat(" ", smallBody))
		return code
	})
}

// TestSlowClientsAreCutOff has clients that stop in the middle of a request or an answer.
func TestSlowClientsAreCutOff(t *testing.T) {
	const header = "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 2\r\n"
	for _, tt := range []struct {
		name, sends string
		reads       time.Duration // time before the client reads
		want        time.Duration
	}{
		{"half a header", header, 0, 5 * time.Second},
		{"half a body", header + "\r\n1", 0, 5 * time.Second},
		{"reads no answer", header + "\r\n12", 31 * time.Second, 31 * time.Second}, // the server closes after 30 s
		{"asks for nothing more", header + "\r\n12", 0, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			listener := bufconn.Listen(1 << 10)
			began := time.Now()
			s := httpServer("test", listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
			}), 1, slog.New(slog.DiscardHandler))
			served := make(chan error, 1)
			go func() { served <- s.run(context.Background()) }()
			client := testenv.Must(listener.Dial())(t)
			_, _ = io.WriteString(client, tt.sends)
			time.Sleep(tt.reads)
			_, _ = io.Copy(io.Discard, client)
			testenv.Equal(t, time.Since(began), tt.want, "%s: cut off after", tt.name)
			client.Close()
			testenv.OK(t, errors.Join(s.stop(context.Background()), <-served))
		})
	}
}

// TestBodiesThatNeverCome has clients that announce a body and send none, more than there may be connections.
func TestBodiesThatNeverCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		listener := bufconn.Listen(1 << 10)
		json := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		s := httpServer("test", listener, httpHandler(func() error { return nil }, json), most, slog.New(slog.DiscardHandler))
		served := make(chan error, 1)
		go func() { served <- s.run(context.Background()) }()
		for i := range 2 * most {
			client := testenv.Must(listener.Dial())(t)
			defer client.Close()
			path := []string{"/json", "/healthcheck"}[i%2]
			go func() {
				_, _ = io.WriteString(client, "POST "+path+" HTTP/1.1\r\nHost: weir\r\nContent-Length: 2\r\n\r\n")
			}()
			synctest.Wait()
		}
		began := time.Now()
		client := testenv.Must(listener.Dial())(t)
		defer client.Close()
		_, _ = io.WriteString(client, "GET /healthcheck HTTP/1.1\r\nHost: weir\r\n\r\n")
		answer, err := bufio.NewReader(client).ReadString('\n')
		if took := time.Since(began); answer != "HTTP/1.1 200 OK\r\n" || took > 0 {
			t.Errorf("the health check got %q, error %v, after %v, want 200 at once", answer, err, took)
		}
		testenv.OK(t, errors.Join(s.stop(context.Background()), <-served))
	})
}
