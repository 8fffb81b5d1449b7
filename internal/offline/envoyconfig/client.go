package envoyconfig

import (
	"net/netip"
	"strings"
)

// xffType is the type of the extension that finds the client address in x-forwarded-for.
const xffType = "envoy.extensions.http.original_ip_detection.xff.v3.XffConfig"

// client describes how a connection manager finds the address of the client: either the address of
// the connection, or the last address in x-forwarded-for before the addresses that trusted proxies added.
type client struct {
	connection bool   // use_remote_address
	keeps      bool   // skip_xff_append: the address of the connection is not added to x-forwarded-for
	hops       uint64 // xff_num_trusted_hops
}

// client reads the client settings of a connection manager. Missing settings are taken from c.
func (r *reader) client(n *node, c client) client {
	if b := n.get("use_remote_address"); b != nil {
		c.connection = b.isTrue()
	}
	if b := n.get("skip_xff_append"); b != nil {
		c.keeps = b.isTrue()
	}
	c.hops = r.number(n.get("xff_num_trusted_hops"), c.hops)
	for i, extension := range n.get("original_ip_detection_extensions").items() {
		kind, value := extension.get("typed_config").typed()
		if kind == xffType && value.get("xff_trusted_cidrs") == nil && i == 0 {
			c.hops = r.number(value.get("xff_num_trusted_hops"), 0)
		} else {
			r.note(extension, "this is ignored, the client may have another address")
		}
	}
	return c
}

// Client returns the trusted client address of a request. headers are the headers that Envoy receives, and
// connection is the address of the connection.
func (c *Config) Client(headers []Header, connection string) string {
	var lists []string
	for _, h := range headers {
		if h.Name == "x-forwarded-for" {
			lists = append(lists, h.Value)
		}
	}
	return c.client.find(strings.Join(lists, ","), connection)
}

// LoggedClient is like Client, for a request in Envoy's access log. The logged x-forwarded-for and address of
// the connection may be empty. The result is empty if the two do not determine the client address.
func (c *Config) LoggedClient(forwardedFor, connection string) string {
	if c.client.connection && !c.client.keeps {
		comma := strings.LastIndexByte(forwardedFor, ',')
		last := forwardedFor[comma+1:]
		// Envoy has appended the address of the connection or, for a loopback connection, its own address.
		if ip, err := netip.ParseAddr(connection); err != nil || !ip.IsLoopback() && last != "" {
			connection = last
		}
		forwardedFor = forwardedFor[:max(comma, 0)]
	}
	return c.client.find(forwardedFor, connection)
}

// find returns the client address. forwardedFor is x-forwarded-for as Envoy receives it.
func (c client) find(forwardedFor, connection string) string {
	skip := c.hops
	if c.connection {
		if skip == 0 {
			return connection
		}
		skip--
	}
	addresses := strings.Split(forwardedFor, ",")
	last := uint64(len(addresses) - 1)
	if skip > last {
		return connection
	}
	address := strings.TrimSpace(addresses[last-skip])
	if _, err := netip.ParseAddr(address); err != nil {
		return connection
	}
	return address
}
