package redisstore

import (
	"cmp"
	"crypto/tls"
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
	*redis.Options          // of a single Redis: address, user, database and TLS; of several: user and TLS
	primary        string   // name by which sentinels know it
	nodes          []string // sentinels, or nodes of a cluster to begin with
	sentinel       login    // of sentinels
}

// login is a user, which may be empty, and a password.
type login struct{ user, password string }

// or is l, with what it lacks from other if it has no password.
func (l login) or(other login) login {
	if l.password != "" {
		return l
	}
	return login{cmp.Or(l.user, other.user), other.password}
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
	if o.SocketType != "" && o.SocketType != "tcp" {
		return address{}, fmt.Errorf("type %s is reached over tcp only", o.Type)
	}
	var a address
	entries := strings.Split(o.URL, ",")
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
	}
	if o.Type == Sentinel {
		a.primary, entries = entries[0], entries[1:]
		if a.primary == "" || len(entries) == 0 || strings.ContainsAny(a.primary, ":/@") {
			return address{}, errors.New("is not name,host:port,...: the name of the primary, then the addresses of its sentinels")
		}
	}
	var err error
	a.Options, a.nodes, err = parseList(entries)
	return a, err
}

// parseList reads several addresses, each host:port or a URL. The user, the
// password and TLS, which all have in common, are in the result.
func parseList(entries []string) (common *redis.Options, nodes []string, err error) {
	common = &redis.Options{Network: "tcp"}
	for i, entry := range entries {
		node, err := parseURL(entry, "tcp")
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("address %d %w", i+1, err)
		case node.Network != "tcp":
			return nil, nil, fmt.Errorf("address %d is a unix socket, allowed are host:port and URLs with redis:// or rediss://", i+1)
		case node.DB != 0:
			return nil, nil, fmt.Errorf("address %d has a database, which is allowed with type single only", i+1)
		case i == 0:
			common.Username, common.Password = node.Username, node.Password
			if node.TLSConfig != nil {
				common.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // whatever the host
			}
		case node.Username != common.Username || node.Password != common.Password || (node.TLSConfig == nil) != (common.TLSConfig == nil):
			return nil, nil, fmt.Errorf("address %d has another user, password or scheme than the first, allowed are the same for all", i+1)
		}
		nodes = append(nodes, node.Addr)
	}
	return common, nodes, nil
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
	moved, err := moveLogin(u)
	if err != nil {
		return nil, err
	}
	c, err := redis.ParseURL(moved.String())
	if err != nil {
		return nil, errUnclear
	}
	return c, checkHost(u, c)
}

// moveLogin moves user and password from the query, where envoyproxy/ratelimit
// reads them, too, to before the host, where go-redis does. What stands there
// already wins. It refuses what would be ignored.
func moveLogin(u *neturl.URL) (*neturl.URL, error) {
	query, err := neturl.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errUnclear
	}
	for name := range query {
		if name != "db" && name != "username" && name != "password" {
			return nil, errors.New("has a query with something else than db, username and password")
		}
	}
	if u.Fragment != "" {
		return nil, errors.New("has a # in it; in a password, special characters are written as %XX")
	}
	moved := *u
	password, _ := u.User.Password()
	user := cmp.Or(u.User.Username(), query.Get("username"))
	if password = cmp.Or(password, query.Get("password")); user != "" || password != "" {
		moved.User = neturl.UserPassword(user, password)
	}
	query.Del("username")
	query.Del("password")
	moved.RawQuery = query.Encode()
	return &moved, nil
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
	// The reason may quote a part of the password, so it is not told.
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
