package settings

import (
	"cmp"
	"errors"
	"net"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"
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

// Login takes the user, which may be empty, and the password from an Auth.
func (s Secret) Login() Login {
	if user, password, found := strings.Cut(string(s), ":"); found {
		return Login{user, password}
	}
	return Login{"", string(s)}
}

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
func (s RedisServer) Address() (a RedisAddress, err error) {
	entries, primary := []string{string(s.URL)}, ""
	several := s.Type == sentinelType || s.Type == clusterType
	if several {
		entries = strings.Split(string(s.URL), ",")
	}
	if s.Type == sentinelType {
		primary, entries = strings.TrimSpace(entries[0]), entries[1:]
		if len(entries) == 0 || primary == "" || strings.ContainsAny(primary, ":/@") {
			return a, errors.New("redis URL is not name,host:port,...: the name of the primary, then the addresses of its sentinels")
		}
	}
	for i, entry := range entries {
		node, err := s.parse(strings.TrimSpace(entry))
		switch {
		case err != nil:
			return a, err
		case several && (node.Network != "tcp" || node.DB != 0):
			return a, errors.New("redis URL has a unix socket or a database, which needs type single")
		case i == 0:
			a = node
		case node.Login != a.Login || node.encrypted != a.encrypted:
			return a, errors.New("redis URL has addresses that differ in user, password or scheme")
		default:
			a.Addrs = append(a.Addrs, node.Addrs...)
		}
	}
	a.Primary = primary
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

// errURL quotes nothing, and neither does it wrap what does.
var errURL = errors.New("redis URL is not host:port, the path of a unix socket, or a URL with redis://, rediss:// or unix://; in a password, write special characters as %XX")

// parse returns where one address of the URL leads.
func (s RedisServer) parse(text string) (a RedisAddress, err error) {
	if !strings.Contains(text, "://") {
		switch {
		case strings.ContainsAny(text, "@?"): // of a URL whose scheme was forgotten
			return a, errURL
		case s.SocketType == "unix" || strings.HasPrefix(text, "/"):
			text = "unix://" + text
		case !strings.Contains(text, ":") || strings.Contains(text, "/"):
			return a, errURL
		default:
			text = "redis://" + text
		}
	}
	u, err := neturl.Parse(text)
	if err != nil || u.Fragment != "" {
		return a, errURL
	}
	query, err := neturl.ParseQuery(u.RawQuery)
	if err != nil {
		return a, errURL
	}
	for name := range query {
		if name != "db" && name != "username" && name != "password" {
			return a, errors.New("redis URL has an unknown parameter; use db, username and password")
		}
	}
	password, _ := u.User.Password()
	a.Login = Login{cmp.Or(u.User.Username(), query.Get("username")), cmp.Or(password, query.Get("password"))}
	db := query.Get("db")
	switch u.Scheme {
	case "redis", "rediss":
		host, port := u.Hostname(), cmp.Or(u.Port(), "6379")
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, ", ") || strings.HasSuffix(u.Host, ":") {
			return a, errURL
		}
		if u.User != nil && u.Port() == "" { // where the host was forgotten, this is the end of a password
			return a, errors.New("redis URL has a password but no port, which it needs then")
		}
		a.Network, a.Addrs, a.encrypted = "tcp", []string{net.JoinHostPort(host, port)}, u.Scheme == "rediss"
		db = cmp.Or(db, strings.Trim(u.Path, "/"))
	case "unix":
		if u.Path == "" || u.Host != "" || strings.Contains(u.Path, "@") {
			return a, errURL
		}
		a.Network, a.Addrs = "unix", []string{u.Path}
	default:
		return a, errURL
	}
	if a.DB, err = strconv.Atoi(cmp.Or(db, "0")); err != nil {
		return a, errURL
	}
	return a, nil
}

// checkChange returns why a server that counts in s cannot go on with next, which may differ
// in URL, users and passwords, and has been checked. The error holds nothing of them.
func (s RedisServer) checkChange(next RedisServer) error {
	before, _ := s.Address()
	after, err := next.Address()
	switch {
	case err != nil || s.URL == next.URL:
		return nil
	case before.DB != after.DB:
		return errors.New("redis URL has another database, which needs a restart")
	case before.Network != after.Network || before.encrypted != after.encrypted:
		return errors.New("redis URL has another scheme, which needs a restart")
	case s.Type == clusterType && !slices.Equal(before.Addrs, after.Addrs):
		return errors.New("redis URL has other addresses of a cluster, which needs a restart")
	}
	return nil
}
