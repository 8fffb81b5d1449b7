package testenv

import (
	"errors"
	"net"
	"testing"
)

// OuterAddr returns an IPv4 address of this machine that is not a loopback address. A
// connection to this address also comes from this address, so it looks like a connection
// from another machine. If there is no such address, it calls Unavailable for "network".
func OuterAddr(t testing.TB) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	for _, addr := range addrs {
		if network, ok := addr.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String()
		}
	}
	if err == nil {
		err = errors.New("this machine has loopback only")
	}
	Unavailable(t, "network", err)
	return ""
}
