package server

import (
	"bufio"
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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"weir/internal/testenv"
)

const asksAlice = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`

// answered sends a request of HTTP as it is, and returns the answer.
func answered(t *testing.T, addr, request string) (status int, header http.Header, body string) {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	testenv.Must(io.WriteString(conn, request))(t)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body) // the end may be a reset, where not all of the request was read
	return response.StatusCode, response.Header, string(text)
}

// TestServiceListener asks for what /healthcheck says, for too large a header, and for
// more large bodies at a time than are read.
func TestServiceListener(t *testing.T) {
	t.Parallel()
	f := start(t, "--config="+directory(t, limited(1000)))
	f.wantHealth(true, "OK")
	if _, header, body := answered(t, f.HTTPAddr(), "GET /healthcheck HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n"); body != "OK" || header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("/healthcheck: got %q, header %v", body, header)
	}
	for _, addr := range []string{f.HTTPAddr(), f.debug.addr(), f.metrics.addr()} {
		if status, _, _ := answered(t, addr, "GET / HTTP/1.1\r\nHost: weir\r\nX-Large: "+strings.Repeat("x", 32<<10)+"\r\n\r\n"); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: a header of 32 KiB: got %d, want 431", addr, status)
		}
	}

	begin := fmt.Sprintf("POST /json HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n", smallBody+1)
	var held []net.Conn
	for range largeBodies { // each is asked for its body, and sends none yet
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
	testenv.Eventually(t, func() error {
		if code, body, err := f.request("POST", f.HTTPAddr(), "/json", asksAlice+strings.Repeat(" ", smallBody)); code != 200 {
			return fmt.Errorf("a large body after it: got %d %q, error %w", code, body, err)
		}
		return nil
	})
}

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns chan net.Conn
	ended context.Context
	end   context.CancelFunc
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended.Done():
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { p.end(); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSlowClientsAreCutOff has clients that stop on their way, on a clock of its own.
func TestSlowClientsAreCutOff(t *testing.T) {
	const header = "POST / HTTP/1.1\r\nHost: weir\r\nContent-Length: 2\r\n"
	for _, tt := range []struct {
		name, sends string
		reads       bool
		want        time.Duration
	}{
		{"half a header", header, true, 5 * time.Second},
		{"half a body", header + "\r\n1", true, 10 * time.Second},
		{"reads no answer", header + "\r\n12", false, 30 * time.Second},
		{"asks for nothing more", header + "\r\n12", true, 2 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				listener, released := pipes{make(chan net.Conn), ctx, end}, make(chan time.Duration, 1)
				began := time.Now()
				s := httpServer("test", listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
				}), 1, slog.New(slog.DiscardHandler))
				served := make(chan error, 1)
				go func() { served <- s.run() }()
				client, conn := net.Pipe()
				defer client.Close()
				listener.conns <- closeTold{conn, began, released}
				go func() {
					_, _ = io.WriteString(client, tt.sends)
					if tt.reads {
						_, _ = io.Copy(io.Discard, client)
					}
				}()
				if got := <-released; got != tt.want {
					t.Errorf("cut off after %v, want %v", got, tt.want)
				}
				if err := errors.Join(s.close(context.Background()), <-served); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// closeTold is a connection that tells when it was closed first.
type closeTold struct {
	net.Conn
	began  time.Time
	closed chan<- time.Duration
}

func (c closeTold) Close() error {
	select {
	case c.closed <- time.Since(c.began):
	default:
	}
	return c.Conn.Close()
}

// TestUndecidedRequests asks without rules, and without Redis. What is no request is
// refused as such either way: no rules could make it one.
func TestUndecidedRequests(t *testing.T) {
	malformed := new(emptypb.Empty)
	malformed.ProtoReflect().SetUnknown([]byte{0x0a, 0xff}) // a field longer than the message
	for _, tt := range []struct {
		name, rules, metric string
		args                []string
	}{
		{"no rules", "domain: [", "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"} 2", []string{"--force-start-without-initial-config"}},
		{"no Redis", limited(3), "weir_store_errors_total 1", []string{"--redis-url=127.0.0.1:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, append(tt.args, "--config="+directory(t, tt.rules))...)
			if _, err := f.ask(t.Context(), "alice"); status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want UNAVAILABLE", err)
			}
			err := f.conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", malformed, new(emptypb.Empty))
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("a malformed message: got %v, want INVALID_ARGUMENT", err)
			}
			f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "\n"+tt.metric+"\n")
		})
	}
}
