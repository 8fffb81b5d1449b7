package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

func TestRedisIsKilledAndStartedAgain(t *testing.T) {
	f := newFixture(t, Options{})
	r, s := f.redis, f.Store
	mustAsk(t, s, "k", perYear)

	// No request is sent during the restart. The next request must not fail because Redis has
	// closed its connection.
	r.Stop()
	r.Start()
	mustAsk(t, s, "k", perYear)

	r.Stop()
	for range 40 { // after one failure for each possible connection, 4 here, go-redis would fail without dialing
		mustFail(t, s)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("Ping of a dead Redis: %v", err)
	}
	r.Start()
	untilDecides(t, s) // the breaker is open
}

// With TLS, go-redis does not notice that the peer has closed a connection.
func TestRedisBehindTLSIsStartedAgain(t *testing.T) {
	https := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer https.Close()
	server, client := https.TLS, https.Client().Transport.(*http.Transport).TLSClientConfig
	r := miniredis.NewMiniRedis()
	testenv.OK(t, r.StartTLS(server))
	defer r.Close()
	s := open(t, Options{Main: Server{Addr: r.Addr(), TLS: func() *tls.Config { return client }, Timeout: long}})
	mustAsk(t, s, "k", perYear)
	addr := r.Addr()
	r.Close()
	testenv.OK(t, r.StartAddrTLS(addr, server))
	mustAsk(t, s, "k", perYear)
}

func TestRedisIsLoading(t *testing.T) {
	t.Parallel()
	// Each key takes a tenth of a second to load, and Redis accepts clients between two keys.
	// All keys together take longer than a request.
	const keys = 500
	f := newFixture(t, Options{}, "--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024")
	for i := range keys {
		f.do("set", fmt.Sprint("filler ", i), strings.Repeat("x", 1024))
	}
	f.do("config", "set", "rdbcompression", "no")
	f.do("save")
	f.redis.Stop()
	f.redis.Start()
	testenv.Contains(t, mustFail(t, f).Error(), "LOADING")
	testenv.Equal(t, f.value("weir_redis_errors_total", conn.KindLoading), 1, "counted errors of this kind")
	do(t, connect(t, f.redis), "config", "set", "key-load-delay", "0")
	untilDecides(t, f)
}

// silent returns the address of a listener that accepts connections and never replies.
func silent(t *testing.T) string {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() }) // the kernel accepts connections
	return l.Addr().String()
}

// TestWhatRedisSaysLastIsTold has a peer that sends an error before it closes the connection,
// either immediately or after the first byte of a command.
func TestWhatRedisSaysLastIsTold(t *testing.T) {
	for _, c := range []struct{ name, says, want string }{
		{"protected mode", "-DENIED Redis is running in protected mode because protected mode is enabled.", "DENIED Redis is running in protected mode because"},
		{"several lines and colours", "-ERR one\rtwo\x1b[31m\u2028three\xff\x00", "ERR one two [31m three"},
		{"without end", "-ERR " + strings.Repeat("on and ", 500), "ERR on and on and"},
		{"the password", "-ERR what is swordfish", "ERR what is ***"},
		{"its beginning", "-ERR unknown command 'AUTH', with args beginning with: 'swordf", "ERR unknown command 'AUTH'"},
	} {
		for _, asked := range []bool{false, true} { // whether the peer reads a byte first
			t.Run(fmt.Sprint(c.name, ", asked ", asked), func(t *testing.T) {
				addr := listen(t, func(conn net.Conn) {
					_, _ = conn.Write([]byte(c.says + "\r\n"))
					if asked {
						_, _ = conn.Read(make([]byte, 1)) // leaves the other bytes unread
					}
					_ = conn.Close() // the system resets a connection with unread bytes
				})
				s := open(t, Options{Main: Server{Addr: addr, Timeout: long, Password: "swordfish"}})
				for range 3 {
					checkTold(t, mustFail(t, s).Error(), c.want)
				}
				checkTold(t, s.State().Problem, c.want)
			})
		}
	}
}

// checkTold checks that text is one line of at most 500 bytes that contains want.
func checkTold(t *testing.T, text, want string) {
	t.Helper()
	testenv.Contains(t, text, want)
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\u2028' || r == '\ufffd' }) || len(text) > 500 {
		t.Errorf("%q is no line of moderate length", text)
	}
	if strings.Contains(text, "swordf") {
		t.Errorf("%q shows the password", text)
	}
}

// TestRealRedisThatRefuses connects to a Redis in protected mode from an outer address, to a
// Redis with too many clients, and to a Redis without HELLO and AUTH, whose errors quote their
// arguments.
func TestRealRedisThatRefuses(t *testing.T) {
	host := testenv.OuterAddr(t)
	guarded := testenv.RedisServer(t, "--bind", "127.0.0.1", host, "--protected-mode", "yes")
	_, port, err := net.SplitHostPort(guarded.Addr())
	testenv.OK(t, err)
	full := testenv.RedisServer(t)
	do(t, connect(t, full), "config", "set", "maxclients", "1")
	old := testenv.RedisServer(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "")
	for _, c := range []struct{ addr, password, want string }{
		{net.JoinHostPort(host, port), "", "DENIED"},
		{full.Addr(), "", "ERR max number of clients reached"},
		{old.Addr(), "swordfish", "ERR unknown command"},
		{old.Addr(), strings.Repeat("swordfish", 50), "ERR unknown command"},
	} {
		s := open(t, Options{Main: Server{Addr: c.addr, Timeout: long, Password: c.password}})
		checkTold(t, mustFail(t, s).Error(), c.want)
		_ = s.Ping(t.Context())
		checkTold(t, s.State().Problem, c.want)
	}
}
