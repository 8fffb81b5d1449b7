//go:build !linux

package testenv

import (
	"net"
	"testing"
)

// OwnAddr returns a free address of 127.0.0.1. Another program may take the address
// before the test uses it: only Linux lets a socket reserve an address without listening.
func OwnAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("looking for a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
