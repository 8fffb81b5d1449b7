package testenv

import (
	"net"
	"testing"
)

func TestPodsAreApart(t *testing.T) {
	const addr = "127.0.0.1:80"
	first, second := NewPod(t), NewPod(t)
	l := first.Listen(t, addr)
	second.Listen(t, addr)

	accepted := make(chan net.Conn)
	go func() {
		conn, _ := l.Accept() // nil if it fails
		accepted <- conn
	}()
	conn, err := first.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other := <-accepted
	if other == nil {
		t.Fatal("nobody came")
	}
	defer other.Close()
	if got, want := other.RemoteAddr().String(), conn.LocalAddr().String(); got != want {
		t.Errorf("%s came, want %s", got, want)
	}
}
