package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
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
// hold one user and password: of a list of sentinels they are theirs. The error shows
// nothing of the URL: anything in it may be a password.
func (s RedisServer) Address() (RedisAddress, error) {
	a, err := s.parse()
	if err != nil {
		return a, fmt.Errorf("redis URL %w", err)
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
		return a, errors.New("redis URL is a unix socket, which does not support TLS")
	}
	return a, nil
}

// parse reads the URL as the type says. Of several addresses, each is host:port or a URL.
func (s RedisServer) parse() (a RedisAddress, err error) {
	list := string(s.URL)
	if s.Type != sentinelType && s.Type != clusterType {
		return parseURL(list, s.Socket())
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
		node, err := parseURL(strings.TrimSpace(entry), s.Socket())
		switch {
		case err != nil:
			return a, fmt.Errorf("address %d %w", i+1, err)
		case node.Network != "tcp" || node.DB != 0:
			return a, fmt.Errorf("address %d is a unix socket or has a database, which only type single may have", i+1)
		case i == 0:
			a = node
		case node.Login != a.Login || node.encrypted != a.encrypted:
			return a, fmt.Errorf("address %d differs from the first in user, password or scheme", i+1)
		default:
			a.Addrs = append(a.Addrs, node.Addrs...)
		}
	}
	a.Primary = primary
	return a, nil
}

// parseURL returns where one url leads: host:port, a path with socket type unix, or a URL.
func parseURL(url, socketType string) (a RedisAddress, err error) {
	isUnix := socketType == "unix"
	scheme, _, isURL := strings.Cut(url, "://")
	switch {
	case url == "":
		return a, errors.New("is empty")
	case strings.ContainsFunc(url, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return a, errors.New("contains a blank")
	case isURL && scheme != "redis" && scheme != "rediss" && scheme != "unix":
		return a, errors.New("has an unknown scheme; use redis, rediss or unix")
	case isURL && isUnix && scheme != "unix":
		return a, fmt.Errorf("has the scheme %s, but the socket type is unix", scheme)
	case !isURL && isUnix:
		return RedisAddress{Network: "unix", Addrs: []string{url}}, checkSocketPath(url)
	case !isURL:
		if _, _, err := net.SplitHostPort(url); err != nil || strings.ContainsAny(url, "@/") {
			return a, errors.New("is not host:port; a user or a database needs redis://, a path needs unix://")
		}
		return RedisAddress{Network: "tcp", Addrs: []string{url}}, checkAddress(url)
	}
	u, err := neturl.Parse(url)
	if err != nil || u.Fragment != "" {
		return a, errUnclear
	}
	a = RedisAddress{Network: "tcp", encrypted: scheme == "rediss"}
	db := strings.Trim(u.Path, "/")
	if scheme == "unix" {
		a.Network, db = "unix", ""
	}
	if err := a.takeLogin(u, db); err != nil {
		return a, err
	}
	switch {
	case a.Network == "unix" && (u.Path == "" || u.Host != ""):
		return a, errors.New("is not the path of a socket, such as unix:///run/redis.sock")
	case a.Network == "unix":
		a.Addrs = []string{u.Path}
		return a, checkSocketPath(u.Path)
	case u.User != nil && u.Hostname() != "" && u.Port() == "":
		// Where the host was forgotten, this is the end of a password.
		return a, errors.New("has a password but no port, which it needs then")
	}
	a.Addrs = []string{net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))}
	return a, checkAddress(a.Addrs[0])
}

// takeLogin takes the user, the password and the database from u, whose path names db. It
// refuses a query that would be ignored.
func (a *RedisAddress) takeLogin(u *neturl.URL, db string) error {
	query, err := neturl.ParseQuery(u.RawQuery)
	if err != nil {
		return errUnclear
	}
	a.Login.User = cmp.Or(u.User.Username(), query.Get("username"))
	a.Login.Password, _ = u.User.Password()
	a.Login.Password = cmp.Or(a.Login.Password, query.Get("password"))
	if db = cmp.Or(query.Get("db"), db); db != "" {
		if a.DB, err = strconv.Atoi(db); err != nil {
			return errUnclear
		}
	}
	for name := range query {
		if name != "db" && name != "username" && name != "password" {
			return errors.New("has an unknown parameter; use db, username or password")
		}
	}
	return nil
}

// The reason may quote a part of the password, so it is not shown.
var errUnclear = errors.New("cannot be parsed; in a password, write special characters as %XX")

// checkSocketPath refuses a URL whose scheme was forgotten: else its password would be shown
// as a part of the path.
func checkSocketPath(path string) error {
	if strings.Contains(path, "@") {
		return errors.New("is not the path of a socket; a URL needs redis://, rediss:// or unix:// before it")
	}
	return nil
}

// checkAddress checks host:port, which has been found to have this form.
func checkAddress(address string) error {
	host, port, _ := net.SplitHostPort(address)
	if host == "" {
		return errors.New("has no host") // rather than one of this machine
	}
	if strings.Contains(host, ",") {
		return errors.New("has several hosts, which needs type sentinel or cluster")
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
	after, other := next.parse()
	switch {
	case err != nil || other != nil:
		return fmt.Errorf("redis URL %w", cmp.Or(other, err))
	case before.DB != after.DB:
		return errors.New("redis URL has another database, which needs a restart")
	case before.Network != after.Network || before.encrypted != after.encrypted:
		return errors.New("redis URL has another scheme, which needs a restart")
	case s.Type == clusterType && !slices.Equal(before.Addrs, after.Addrs):
		return errors.New("redis URL has other addresses of a cluster, which needs a restart")
	}
	return nil
}
