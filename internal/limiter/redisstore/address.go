package redisstore

import (
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// address is where Options.URL leads to.
type address struct {
	*redis.Options          // of a single Redis: address, user, database and TLS
	primary        string   // name by which sentinels know it
	nodes          []string // sentinels, or nodes of a cluster to begin with
}

// name tells where Redis is, for the log.
func (a address) name() string {
	switch {
	case a.primary != "":
		return a.primary + " of " + strings.Join(a.nodes, ",")
	case a.nodes != nil:
		return strings.Join(a.nodes, ",")
	default:
		return a.Addr
	}
}

// address reads URL as Type says, or tells what is wrong with it.
func (o *Options) address() (address, error) {
	if o.Type != Sentinel && o.Type != Cluster {
		single, err := parseURL(o.URL, o.SocketType)
		return address{Options: single}, err
	}
	a := address{Options: &redis.Options{Network: "tcp"}, nodes: strings.Split(o.URL, ",")}
	if o.SocketType != "" && o.SocketType != "tcp" {
		return a, fmt.Errorf("type %s is reached over tcp only", o.Type)
	}
	if o.Type == Sentinel {
		a.primary, a.nodes = a.nodes[0], a.nodes[1:]
		if a.primary == "" || len(a.nodes) == 0 || strings.ContainsAny(a.primary, ":/@") {
			return a, errors.New("is not name,host:port,...: the name of the primary, then the addresses of its sentinels")
		}
	}
	for i, node := range a.nodes {
		_, err := parseURL(node, "tcp")
		switch {
		case strings.Contains(node, "://"):
			return a, fmt.Errorf("has a scheme, allowed are host:port,... with type %s", o.Type)
		case err != nil:
			return a, fmt.Errorf("address %d %w", i+1, err)
		}
	}
	return a, nil
}

// parseURL finds out where url points. Only the address, the user, the
// database and TLS of the result are set.
func parseURL(url, socketType string) (*redis.Options, error) {
	if socketType != "" && socketType != "tcp" && socketType != "unix" {
		return nil, fmt.Errorf("socket type %q is neither tcp nor unix", socketType)
	}
	scheme, _, ok := strings.Cut(url, "://")
	switch {
	case url == "":
		return nil, errors.New("is empty")
	case strings.ContainsFunc(url, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return nil, errors.New("has a blank in it")
	case !ok && socketType == "unix":
		return &redis.Options{Network: "unix", Addr: url}, nil
	case !ok:
		if _, _, err := net.SplitHostPort(url); err != nil || strings.ContainsAny(url, "@/") {
			return nil, errors.New("is not host:port; a user or a database needs redis://, a path needs unix://")
		}
		return &redis.Options{Network: "tcp", Addr: url}, checkAddress(url)
	case scheme != "redis" && scheme != "rediss" && scheme != "unix":
		return nil, errors.New("scheme is none of redis, rediss and unix")
	case socketType == "unix" && scheme != "unix":
		return nil, fmt.Errorf("scheme %s contradicts socket type unix", scheme)
	}
	u, err := neturl.Parse(url)
	if err != nil {
		return nil, errUnclear
	}
	if err := checkQuery(u); err != nil {
		return nil, err
	}
	c, err := redis.ParseURL(url)
	if err != nil {
		return nil, errUnclear
	}
	return c, checkHost(u, c)
}

// checkQuery refuses what would be ignored.
func checkQuery(u *neturl.URL) error {
	for name := range u.Query() {
		if u.Scheme != "unix" || name != "db" {
			return errors.New("has a query, allowed is ?db=database after unix://")
		}
	}
	if u.Fragment != "" {
		return errors.New("has a # in it; in a password, special characters are written as %XX")
	}
	return nil
}

// checkHost refuses hosts that ParseURL, which made c of u, puts up with.
func checkHost(u *neturl.URL, c *redis.Options) error {
	switch {
	case u.Scheme == "unix" && u.Host != "":
		return errors.New("has a host, a unix socket has none")
	case u.Scheme == "unix":
		return nil
	case u.Hostname() == "":
		return errNoHost // rather than one of this machine
	case u.User != nil && u.Port() == "":
		// Where the host was forgotten, this is the end of a password.
		return errors.New("has a password but no port, which is needed then")
	}
	return checkAddress(c.Addr)
}

var (
	errNoHost = errors.New("has no host")
	// The reason may quote a part of the password, so it is not told.
	errUnclear = errors.New("cannot be understood; in a password, special characters are written as %XX")
)

// checkAddress checks host:port, which has been found to have this form.
func checkAddress(address string) error {
	host, port, _ := net.SplitHostPort(address)
	switch {
	case host == "":
		return errNoHost
	case strings.Contains(host, ","):
		return errors.New("names several hosts, allowed is one")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("port is not a number from 1 to 65535") // but may be a password
	}
	return nil
}

// addresses is an address, or several, in which no password can be.
var addresses = regexp.MustCompile(`^([^:]*|\[[0-9A-Fa-f:.]*\])(:\s*\d{0,5}\s*)?(,[^:]*:\d{0,5})*$`)

// redact hides what may be a password: all before an @, a query, and what is
// where an address should be.
func redact(url string) string {
	const hidden = "***"
	start := 0
	if i := strings.Index(url, "://"); i >= 0 {
		start = i + len("://")
	}
	shown := url
	at := strings.LastIndexByte(url, '@')
	if at >= 0 {
		start = at + 1
		shown = hidden + url[at:]
	}
	host, _, _ := strings.Cut(url[start:], "/")
	host, _, _ = strings.Cut(host, "?")
	// Behind an @, only a port tells a host from the end of a password.
	if !addresses.MatchString(host) || at >= 0 && host != "" && !strings.Contains(host, ":") {
		return hidden
	}
	if i := strings.IndexAny(shown, "?#"); i >= 0 {
		shown = shown[:i+1] + hidden
	}
	return shown
}
