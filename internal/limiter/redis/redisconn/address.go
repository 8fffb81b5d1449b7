package redisconn

import (
	"cmp"
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
	*redis.Options          // network, user, password, database and TLS
	addrs          []string // of the server, of sentinels, or of nodes of a cluster to begin with
	primary        string   // name by which sentinels know it
}

// address reads URL as Type says, or says what is wrong with it. Of several
// addresses, each is host:port or a URL.
func (o *Options) address() (a address, err error) {
	if o.Type != Sentinel && o.Type != Cluster {
		if a.Options, err = parseURL(o.URL, o.SocketType); err != nil {
			return a, err
		}
		a.addrs = []string{a.Addr}
		return a, nil
	}
	if o.SocketType != "" && o.SocketType != "tcp" {
		return a, fmt.Errorf("type %s is reached over tcp only", o.Type)
	}
	list := o.URL
	if o.Type == Sentinel {
		name, sentinels, found := strings.Cut(o.URL, ",")
		a.primary, list = strings.TrimSpace(name), sentinels
		if !found || a.primary == "" || strings.ContainsAny(a.primary, ":/@") {
			return a, errors.New("is not name,host:port,...: the name of the primary, then the addresses of its sentinels")
		}
	}
	for i, entry := range strings.Split(list, ",") {
		node, err := parseURL(strings.TrimSpace(entry), "tcp")
		switch {
		case err != nil:
			return a, fmt.Errorf("address %d %w", i+1, err)
		case node.Network != "tcp":
			return a, fmt.Errorf("address %d is a unix socket, allowed are host:port and URLs with redis:// or rediss://", i+1)
		case node.DB != 0:
			return a, fmt.Errorf("address %d has a database, which is allowed with type single only", i+1)
		case i == 0:
			a.Options = node
		case node.Username != a.Username || node.Password != a.Password || (node.TLSConfig == nil) != (a.TLSConfig == nil):
			return a, fmt.Errorf("address %d has another user, password or scheme than the first, allowed are the same for all", i+1)
		}
		a.addrs = append(a.addrs, node.Addr)
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
		return &redis.Options{Network: "unix", Addr: url}, checkPath(url)
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
	user, password, err := takeLogin(u)
	if err != nil {
		return nil, err
	}
	c, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, errUnclear
	}
	c.Username, c.Password = cmp.Or(c.Username, user), cmp.Or(c.Password, password)
	return c, checkHost(u, c)
}

// takeLogin takes user and password out of the query of u, where go-redis does not
// read them, but envoyproxy/ratelimit does. It refuses what would be ignored.
func takeLogin(u *neturl.URL) (user, password string, err error) {
	query, err := neturl.ParseQuery(u.RawQuery)
	if err != nil {
		return "", "", errUnclear
	}
	for name := range query {
		if name != "db" && name != "username" && name != "password" {
			return "", "", errors.New("has a query with something else than db, username and password")
		}
	}
	if u.Fragment != "" {
		return "", "", errors.New("has a # in it; in a password, special characters are written as %XX")
	}
	user, password = query.Get("username"), query.Get("password")
	query.Del("username")
	query.Del("password")
	u.RawQuery = query.Encode()
	return user, password, nil
}

// checkHost refuses hosts that ParseURL, which made c of u, puts up with.
func checkHost(u *neturl.URL, c *redis.Options) error {
	switch {
	case u.Scheme == "unix" && u.Host != "":
		return errors.New("has a host, a unix socket has none")
	case u.Scheme == "unix":
		return checkPath(c.Addr)
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
	// The reason may quote a part of the password, so it is not shown.
	errUnclear = errors.New("cannot be understood; in a password, special characters are written as %XX")
)

// loginLike is what a user, a password and an @ look like, wherever they stand.
var loginLike = regexp.MustCompile(`^//|:[^/]*@`)

// checkPath refuses what is hardly the path of a socket but a URL whose scheme was
// forgotten: else its password would be shown as a part of the path.
func checkPath(path string) error {
	if loginLike.MatchString(path) {
		return errors.New("is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it")
	}
	return nil
}

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
