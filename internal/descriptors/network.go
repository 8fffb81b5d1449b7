package descriptors

import (
	"fmt"
	"net/netip"
	"strings"
)

// parseNetwork returns the network in text. It converts an IPv4 network in IPv6 form to IPv4. If
// the text is invalid, wrong is the message of the problem.
func parseNetwork(text string) (network netip.Prefix, wrong string) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return network, fmt.Sprintf("%q is an address, not a network; write %q for this address alone", text, host(address))
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, fmt.Sprintf("%q is not a network; write it as 10.0.0.0/8 or 2001:db8::/32", text)
	}
	if meant := network.Masked(); meant != network {
		if address := network.Addr(); address.Is4In6() && network.Bits() <= 32 {
			meant = netip.PrefixFrom(address.Unmap(), network.Bits()).Masked()
		}
		return network, fmt.Sprintf("%q has bits set after the first %d (did you mean %s?)", text, network.Bits(), meant)
	}
	if address := network.Addr(); address.Is4In6() {
		network = netip.PrefixFrom(address.Unmap(), network.Bits()-mappedBits)
	}
	return network, ""
}

// mappedBits is the length of the prefix before IPv4 addresses in IPv6 form.
const mappedBits = 96

// host returns the network that contains only this address.
func host(address netip.Addr) netip.Prefix { return netip.PrefixFrom(address, address.BitLen()) }

// longestAddress is the maximum length of an address as text.
const longestAddress = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// parseAddress returns the address in a value of a request. It converts IPv4 addresses in IPv6
// form to IPv4, and removes the zone, which Envoy sends with link-local addresses.
//
// netip.ParseAddr allocates when it fails, and keeps every zone in memory. So parseAddress calls it
// only for values that look like an address, without the zone. It allocates 48 bytes if one is invalid.
func parseAddress(value string) (address netip.Addr, ok bool) {
	zone := strings.IndexByte(value, '%')
	if zone > 0 && zone < len(value)-1 {
		value = value[:zone]
	}
	if len(value) > longestAddress || strings.Trim(value, ".:0123456789abcdefABCDEF") != "" {
		return address, false
	}
	dots, colons := strings.Count(value, "."), strings.Count(value, ":")
	if colons < 2 && (dots != 3 || colons > 0 || zone >= 0) {
		return address, false
	}
	address, err := netip.ParseAddr(value)
	return address.Unmap(), err == nil
}
