package redis

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestWhatRedisSaysLastIsTold has somebody say why he closes a connection, before he has been
// asked or after.
func TestWhatRedisSaysLastIsTold(t *testing.T) {
	for _, c := range []struct{ name, says, want string }{
		{"protected mode", "-DENIED Redis is running in protected mode because protected mode is enabled.", "DENIED Redis is running in protected mode because"},
		{"several lines and colours", "-ERR one\rtwo\x1b[31m\u2028three\xff\x00", "ERR one two [31m three"},
		{"without end", "-ERR " + strings.Repeat("on and ", 500), "ERR on and on and"},
		{"the password", "-ERR what is swordfish", "ERR what is ***"},
		{"its beginning", "-ERR unknown command 'AUTH', with args beginning with: 'swordf", "ERR unknown command 'AUTH'"},
	} {
		for _, asked := range []bool{false, true} { // first
			t.Run(fmt.Sprint(c.name, ", asked ", asked), func(t *testing.T) {
				addr := listen(t, func(conn net.Conn) {
					_, _ = conn.Write([]byte(c.says + "\r\n"))
					if asked {
						_, _ = conn.Read(make([]byte, 1)) // but not all
					}
					_ = conn.Close() // the system resets it when something has come, or comes
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

// checkTold wants words in a text of one line and of moderate length.
func checkTold(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("got %q, want it to say %q", text, want)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\u2028' || r == '\ufffd' }) || len(text) > 500 {
		t.Errorf("%q is no line of moderate length", text)
	}
	if strings.Contains(text, "swordf") {
		t.Errorf("%q shows the password", text)
	}
}

// TestRealRedisThatRefuses reaches one in protected mode at an address of this machine that is
// not of its loopback interface, one that has no room, and one that knows neither HELLO nor AUTH,
// and repeats what they were given.
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
