package redisstore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	neturl "net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say which Redis to use, and how.
type Options struct {
	// URL is where Redis listens: host:port; redis://host[:port][/database];
	// redis://user:password@host:port[/database], where the user may be empty; the
	// same with rediss:// for TLS; unix://[user:password@]/path[?db=database]; or a
	// path if SocketType is "unix".
	URL string
	// SocketType is "tcp", "unix" or empty, which means tcp. A URL with a scheme
	// says it itself.
	SocketType string
	// Username and Password are used where URL holds none. A password alone is
	// that of Redis' default user.
	Username, Password string
	// TLS, if not nil, encrypts the connection, whatever the URL's scheme.
	TLS *tls.Config
	// OpTimeout bounds one call and how long a request waits. 0 means
	// DefaultOpTimeout.
	OpTimeout time.Duration
	// Now tells the time of decisions. nil means Redis' own clock; only a Redis
	// that refuses TIME in scripts, or a test, needs another.
	Now func() time.Time
	// Logger tells when Redis fails and when it is back. nil means no log.
	Logger *slog.Logger
	// Registerer takes the metrics. nil means that nobody reads them.
	Registerer prometheus.Registerer
}

// DefaultOpTimeout is the time that a call may take unless Options say otherwise.
const DefaultOpTimeout = 100 * time.Millisecond

const (
	// connections is how many there are at most: one for calls, which are made
	// one after the other, one for Ping, and room for two that are being made.
	connections = 4
	// connectTimeout bounds the making of a connection, unless OpTimeout is
	// longer. It goes on in the background when the call that wants it gives up,
	// so that a slow handshake succeeds although OpTimeout is short.
	connectTimeout = time.Second
	// maxIdle is when an idle connection is closed. Load balancers and NAT
	// forget connections, silently, after some minutes.
	maxIdle = 3 * time.Minute
)

// client turns o into the options of go-redis, or tells what is wrong with them.
func (o *Options) client() (*redis.Options, error) {
	if o.OpTimeout < 0 {
		return nil, fmt.Errorf("redis op timeout %v: must not be negative", o.OpTimeout)
	}
	c, err := parseURL(o.URL, o.SocketType)
	if err != nil {
		return nil, fmt.Errorf("redis URL %q: %w", redact(o.URL), err)
	}
	if c.Username == "" && c.Password == "" {
		c.Username, c.Password = o.Username, o.Password
	}
	if c.Username != "" && c.Password == "" {
		return nil, fmt.Errorf("redis user %q: has no password", c.Username)
	}
	if o.TLS != nil {
		if c.Network == "unix" {
			return nil, fmt.Errorf("redis URL %q: a unix socket does not speak TLS", redact(o.URL))
		}
		c.TLSConfig = o.TLS
	}

	timeout := cmp.Or(o.OpTimeout, DefaultOpTimeout)
	return &redis.Options{
		Network: c.Network, Addr: c.Addr, DB: c.DB, Username: c.Username, Password: c.Password,
		Dialer: dialer(c.TLSConfig),

		ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled: true,
		DialTimeout:           max(timeout, connectTimeout),
		DialerRetries:         1,
		MaxRetries:            -1, // a repeated call would charge twice

		PoolSize: connections, MaxConcurrentDials: connections,
		PipelinePoolSize: -1, // none
		ConnMaxIdleTime:  maxIdle,

		// Say nothing but what a call needs: no CLIENT SETINFO, no CLIENT
		// MAINT_NOTIFICATIONS, no pushed messages.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
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
