package testenv

import (
	"net"
	"testing"
)

// IPv6Loopback returns the IPv6 address of this machine to itself. Where it has
// none, the test is skipped; WEIR_TEST_REQUIRE calls it ipv6.
func IPv6Loopback(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		missing(t, "ipv6", err)
	}
	listener.Close()
	return "::1"
}
