package envoyconfig

import (
	"net/netip"
	"strings"
)

// xffType is the extension that finds the client in x-forwarded-for.
const xffType = "envoy.extensions.http.original_ip_detection.xff.v3.XffConfig"

// client says which address a connection manager takes for the client: that of the connection, or the one in
// x-forwarded-for before those of so many trusted proxies.
type client struct {
	connection bool   // use_remote_address
	keeps      bool   // skip_xff_append: the address of the connection is not added to x-forwarded-for
	hops       uint64 // xff_num_trusted_hops
}

// client reads it of a connection manager. What the manager does not say is as before.
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

// Client returns the address of the client that Envoy trusts, by the headers of a request as it comes to Envoy and
// the address of its connection.
func (c *Config) Client(headers []Header, connection string) string {
	var lists []string
	for _, h := range headers {
		if h.Name == "x-forwarded-for" {
			lists = append(lists, h.Value)
		}
	}
	return c.client.find(strings.Join(lists, ","), connection)
}

// LoggedClient returns the address of the client that Envoy trusts, by x-forwarded-for as its log has it and the
// address of the connection. Either may be empty, and so is the address if they do not say it.
func (c *Config) LoggedClient(forwardedFor, connection string) string {
	if c.client.connection && !c.client.keeps {
		before, last := cutLast(forwardedFor)
		// Envoy has added the address of the connection, or its own in place of a loopback.
		if ip, err := netip.ParseAddr(connection); err != nil || !ip.IsLoopback() && last != "" {
			connection = last
		}
		forwardedFor = before
	}
	return c.client.find(forwardedFor, connection)
}

// cutLast cuts the last address off a list.
func cutLast(list string) (before, last string) {
	comma := strings.LastIndexByte(list, ',')
	return list[:max(comma, 0)], list[comma+1:]
}

// find returns the client by x-forwarded-for as it comes to Envoy.
func (c client) find(forwardedFor, connection string) string {
	skip := c.hops
	if c.connection {
		if skip == 0 {
			return connection
		}
		skip--
	}
	for ; skip > 0 && forwardedFor != ""; skip-- {
		if !strings.Contains(forwardedFor, ",") {
			return connection
		}
		forwardedFor, _ = cutLast(forwardedFor)
	}
	_, address := cutLast(forwardedFor)
	address = strings.TrimSpace(address)
	if _, err := netip.ParseAddr(address); err != nil {
		return connection
	}
	return address
}
