package testenv

import (
	"errors"
	"net"
	"testing"
)

// OuterHost returns an IPv4 address of this machine that is not of its loopback
// interface. Without one, the test is skipped; the name for WEIR_TEST_REQUIRE is
// network.
func OuterHost(t testing.TB) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	unavailable(t, "network", errors.New("this machine has a loopback interface only"))
	return ""
}
