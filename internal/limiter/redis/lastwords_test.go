package redis

import (
	"net"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// denied is what a Redis in protected mode says to who comes from elsewhere.
const denied = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface.\r\n"

// TestWhatRedisSaysLastIsTold has somebody say why he closes a connection, which is
// before he has been asked or after.
func TestWhatRedisSaysLastIsTold(t *testing.T) {
	for _, c := range []struct {
		name, says string
		asked      bool     // first
		want       []string // in the error
	}{
		{"protected mode", denied, false, []string{"DENIED Redis is running in protected mode because"}},
		{"protected mode, asked", denied, true, []string{"DENIED Redis is running in protected mode because"}},
		{"too many clients", "-ERR max number of clients reached\r\n", false, []string{"ERR max number of clients reached"}},
		{"too many clients, asked", "-ERR max number of clients reached\r\n", true, []string{"ERR max number of clients reached"}},
		{"several lines and colours", "-ERR one\rtwo\x1b[31m\u2028three\xff\x00\r\n", true, []string{"ERR one two [31m three"}},
		{"without end", "-ERR " + strings.Repeat("on and ", 500) + "\r\n", true, []string{"ERR on and on and"}},
		{"the password", "-ERR unknown command 'AUTH', with args beginning with: 'swordf\r\n-ERR what is swordfish\r\n", true, []string{"ERR what is ***"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Options{Main: Server{Addr: closing(t, c.says, c.asked), Timeout: long, Password: "swordfish"}})
			for range 3 {
				checkTold(t, mustFail(t, s).Error(), c.want)
			}
			checkTold(t, s.State().Problem, c.want)
		})
	}
}

// checkTold wants words in a text of one line and of moderate length.
func checkTold(t *testing.T, text string, want []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("got %q, want it to say %q", text, w)
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\u2028' || r == '\ufffd' }) || len(text) > 500 {
		t.Errorf("%q is no line of moderate length", text)
	}
	if strings.Contains(text, "swordf") {
		t.Errorf("%q shows the password", text)
	}
}

// closing is the address of somebody who says something and closes the connection.
func closing(t *testing.T, says string, asked bool) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte(says))
		if asked {
			_, _ = conn.Read(make([]byte, 1)) // but not all
		}
		_ = conn.Close() // the system resets it when something has come, or comes
	})
}

// TestRedisInProtectedMode reaches a real one at an address of this machine that is
// not of its loopback interface.
func TestRedisInProtectedMode(t *testing.T) {
	host := testenv.OuterAddr(t)
	r := testenv.RedisServer(t, "--bind", "127.0.0.1", host, "--protected-mode", "yes")
	_, port, err := net.SplitHostPort(r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Main: at(net.JoinHostPort(host, port))})
	for range maxUnanswered - 1 {
		checkTold(t, mustFail(t, s).Error(), []string{"DENIED", "in protected mode"})
	}
	if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "protected mode") {
		t.Errorf("Ping: got error %v, want one that names the protected mode", err)
	}
}

// TestRedisWithTooManyClients finds no room.
func TestRedisWithTooManyClients(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	do(t, admin, "config", "set", "maxclients", "1")
	s := open(t, Options{Main: at(r.Addr())})
	checkTold(t, mustFail(t, s).Error(), []string{"ERR max number of clients reached"})
}

// TestTheArgumentsOfAuthAreNotTold has a Redis that knows neither HELLO nor AUTH,
// and repeats what they were given.
func TestTheArgumentsOfAuthAreNotTold(t *testing.T) {
	for _, password := range []string{"swordfish", strings.Repeat("swordfish", 50)} {
		r := testenv.RedisServer(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "")
		s := open(t, Options{Main: Server{Addr: r.Addr(), Timeout: long, Password: password}})
		checkTold(t, mustFail(t, s).Error(), []string{"ERR unknown command"})
		_ = s.Ping(t.Context())
		checkTold(t, s.State().Problem, []string{"ERR unknown command"})
	}
}
