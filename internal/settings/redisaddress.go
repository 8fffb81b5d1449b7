package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// RedisAddress is where the URL of a Redis leads, and as whom.
type RedisAddress struct {
	Network string   // tcp or unix
	Addrs   []string // of the server, of sentinels, or of nodes of a cluster to begin with
	Primary string   // name by which sentinels know it
	DB      int

	Login, Sentinel Login // in Redis, and at its sentinels

	encrypted bool // the scheme is rediss
}

// Login is a user, whose name may be empty, and a password.
type Login struct{ User, Password string }

// or returns l, with what it lacks from other if it has no password.
func (l Login) or(other Login) Login {
	if l.Password != "" {
		return l
	}
	return Login{cmp.Or(l.User, other.User), other.Password}
}

// The types of Redis that consist of several servers.
const (
	sentinelType Word = "sentinel"
	clusterType  Word = "cluster"
)

// Address returns where s is and who Weir is there, or what is wrong with it. The URL may
// hold one user and password: of a list of sentinels they are theirs. The error holds no
// password.
func (s RedisServer) Address() (RedisAddress, error) {
	a, err := s.parse()
	if err != nil {
		return a, fmt.Errorf("redis URL %w", err) // which is not shown: anything in it may be a password
	}
	if s.Type == sentinelType {
		a.Login, a.Sentinel = Login{}, a.Login.or(s.SentinelAuth.Login())
	}
	a.Login = a.Login.or(s.Auth.Login())
	switch {
	case a.Login.User != "" && a.Login.Password == "":
		return a, errors.New("redis user has no password")
	case a.Sentinel.User != "" && a.Sentinel.Password == "":
		return a, errors.New("sentinel user has no password")
	case s.Encrypted() && a.Network == "unix":
		return a, errors.New("redis URL is that of a unix socket, which does not speak TLS")
	}
	return a, nil
}

// parse reads the URL as the type says. Of several addresses, each is host:port or a URL.
func (s RedisServer) parse() (a RedisAddress, err error) {
	list := string(s.URL)
	if s.Type != sentinelType && s.Type != clusterType {
		return parseURL(list, s.Socket())
	}
	if socket := s.Socket(); socket != "" && socket != "tcp" {
		return a, fmt.Errorf("type %s is reached over tcp only", s.Type)
	}
	primary := ""
	if s.Type == sentinelType {
		name, sentinels, found := strings.Cut(list, ",")
		primary, list = strings.TrimSpace(name), sentinels
		if !found || primary == "" || strings.ContainsAny(primary, ":/@") {
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
			a = node
		case node.Login != a.Login || node.encrypted != a.encrypted:
			return a, fmt.Errorf("address %d has another user, password or scheme than the first, allowed are the same for all", i+1)
		default:
			a.Addrs = append(a.Addrs, node.Addrs...)
		}
	}
	a.Primary = primary
	return a, nil
}

// parseURL finds out where one url leads.
func parseURL(url, socketType string) (a RedisAddress, err error) {
	scheme, _, ok := strings.Cut(url, "://")
	switch {
	case url == "":
		return a, errors.New("is empty")
	case strings.ContainsFunc(url, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return a, errors.New("has a blank in it")
	case !ok && socketType == "unix":
		return RedisAddress{Network: "unix", Addrs: []string{url}}, checkSocketPath(url)
	case !ok:
		if _, _, err := net.SplitHostPort(url); err != nil || strings.ContainsAny(url, "@/") {
			return a, errors.New("is not host:port; a user or a database needs redis://, a path needs unix://")
		}
		return RedisAddress{Network: "tcp", Addrs: []string{url}}, checkAddress(url)
	case scheme != "redis" && scheme != "rediss" && scheme != "unix":
		return a, errors.New("scheme is none of redis, rediss and unix")
	case socketType == "unix" && scheme != "unix":
		return a, fmt.Errorf("scheme %s contradicts socket type unix", scheme)
	}
	u, err := neturl.Parse(url)
	if err != nil {
		return a, errUnclear
	}
	a.Network, a.encrypted = "tcp", scheme == "rediss"
	a.Login.User = u.User.Username()
	a.Login.Password, _ = u.User.Password()
	db := strings.Trim(u.Path, "/")
	if scheme == "unix" {
		a.Network, db = "unix", ""
	}
	if err := a.takeQuery(u, db); err != nil {
		return a, err
	}
	return a, a.takeHost(u)
}

// takeQuery takes the database, the user and the password from the query of u. It refuses
// what would be ignored. db is the database that the path names.
func (a *RedisAddress) takeQuery(u *neturl.URL, db string) error {
	query, err := neturl.ParseQuery(u.RawQuery)
	if err != nil {
		return errUnclear
	}
	for name := range query {
		if name != "db" && name != "username" && name != "password" {
			return errors.New("has a query with something else than db, username and password")
		}
	}
	if u.Fragment != "" {
		return errors.New("has a # in it; in a password, special characters are written as %XX")
	}
	a.Login.User = cmp.Or(a.Login.User, query.Get("username"))
	a.Login.Password = cmp.Or(a.Login.Password, query.Get("password"))
	if db = cmp.Or(query.Get("db"), db); db != "" {
		if a.DB, err = strconv.Atoi(db); err != nil {
			return errUnclear
		}
	}
	return nil
}

// takeHost takes the address from u.
func (a *RedisAddress) takeHost(u *neturl.URL) error {
	switch {
	case a.Network == "unix" && strings.Trim(u.Path, " ") == "":
		return errUnclear
	case a.Network == "unix" && u.Host != "":
		return errors.New("has a host, a unix socket has none")
	case a.Network == "unix":
		a.Addrs = []string{u.Path}
		return checkSocketPath(u.Path)
	case u.Hostname() == "":
		return errNoHost // rather than one of this machine
	case u.User != nil && u.Port() == "":
		// Where the host was forgotten, this is the end of a password.
		return errors.New("has a password but no port, which is needed then")
	}
	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))
	a.Addrs = []string{address}
	return checkAddress(address)
}

var (
	errNoHost = errors.New("has no host")
	// The reason may quote a part of the password, so it is not shown.
	errUnclear = errors.New("cannot be understood; in a password, special characters are written as %XX")
)

// loginLike is what a user, a password and an @ look like, wherever they stand.
var loginLike = regexp.MustCompile(`^//|:[^/]*@`)

// checkSocketPath refuses what is hardly the path of a socket but a URL whose scheme was
// forgotten: else its password would be shown as a part of the path.
func checkSocketPath(path string) error {
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

// checkChange returns why a server that counts in s cannot go on with next, which differs in
// URL, users and passwords. The error holds nothing of them.
func (s RedisServer) checkChange(next RedisServer) error {
	before, err := s.parse()
	if err != nil {
		return fmt.Errorf("redis URL %w", err)
	}
	after, err := next.parse()
	if err != nil {
		return fmt.Errorf("redis URL %w", err)
	}
	switch {
	case before.DB != after.DB:
		return errors.New("redis URL has another database, which takes a restart")
	case before.Network != after.Network || before.encrypted != after.encrypted:
		return errors.New("redis URL has another scheme, which takes a restart")
	case s.Type == clusterType && !slices.Equal(before.Addrs, after.Addrs):
		return errors.New("redis URL has other addresses of a cluster, which takes a restart")
	}
	return nil
}
