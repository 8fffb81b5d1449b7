//go:build !linux

package testenv

import (
	"net"
	"testing"
)

// OwnAddr returns an address of 127.0.0.1 that nobody listens on. Another may take
// it before it is used: only Linux lets a socket keep it without listening.
func OwnAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("looking for a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
