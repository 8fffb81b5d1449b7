package client

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// debugPort is where a server listens unless its settings say otherwise.
const debugPort = "6070"

var errAddress = errors.New("it is no address of a server, allowed are host:port, http://host:port and https://host:port")

// parseAddress reads the address of a server. Its error does not show the address, which
// may hold a password by mistake.
func parseAddress(server string) (*url.URL, error) {
	plain := !strings.Contains(server, "://")
	if plain {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.HasSuffix(u.Host, ":") || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errAddress
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" && plain {
		port = debugPort
	}
	u.Host = strings.TrimSuffix(net.JoinHostPort(host, port), ":") // a URL needs no port
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}
