package redisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say which Redis to use, and how.
type Options struct {
	// Type is what Redis consists of. The zero value is Single.
	Type Type
	// URL is where Redis listens: host:port; redis://host[:port][/database];
	// redis://user:password@host:port[/database], where the user may be empty; the
	// same with rediss:// for TLS; unix://[user:password@]/path[?db=database]; or a
	// path if SocketType is "unix". Instead, database, user and password may be a
	// query: ?db=, &username= and &password=. With Sentinel it is the name of the
	// primary and the addresses of its sentinels, name,host:port,...; with Cluster
	// the addresses of some nodes, host:port,... Each of these may be a URL, with
	// the same user, password and scheme in all; those of sentinels are not Redis'.
	URL string
	// SocketType is "tcp", "unix" or empty, which means tcp. A URL with a scheme
	// says it itself.
	SocketType string
	// Username and Password are used where URL holds no password. A password alone
	// is that of Redis' default user.
	Username, Password string
	// SentinelUsername and SentinelPassword are for the sentinels.
	SentinelUsername, SentinelPassword string
	// TLS, if not nil, encrypts all connections, whatever the URL's scheme. It is
	// asked for each anew.
	TLS func() *tls.Config
	// PoolSize is how many connections there are at most to each node of a
	// cluster. 0 means DefaultPoolSize. Others need no more than a few.
	PoolSize int
	// ConnectTimeout bounds the making of a connection, which a second, or OpTimeout
	// if it is longer, does anyway. It goes on in the background when the call that
	// wants it gives up. 0 means no other bound.
	ConnectTimeout time.Duration
	// Latest, if not nil, returns these options with the URL, the users and the passwords
	// as they are now. CheckChange must accept the change.
	Latest func() Options
	// Renew has what Latest returns read anew, because Redis refused it. It is needed with
	// Latest, and ctx bounds how long it waits.
	Renew func(ctx context.Context)
	// Changed, if not nil, is called after a change of what Latest returns: with why a
	// server does not accept it, each reason once, and with nil when it does. Until then,
	// what was used before is.
	Changed func(error)
	// OpTimeout bounds one call. 0 means DefaultOpTimeout, less is an error.
	OpTimeout time.Duration
}

// Type is what a Redis consists of.
type Type string

// The types: one server, one primary whom sentinels know, and a cluster.
const (
	Single   Type = "single"
	Sentinel Type = "sentinel"
	Cluster  Type = "cluster"
)

// DefaultPoolSize is the most connections to a node of a cluster.
const DefaultPoolSize = 10

// DefaultOpTimeout is the time that a call may take unless Options say otherwise.
const DefaultOpTimeout = 100 * time.Millisecond

const (
	// connections is how many there are at most: one for calls, which are made
	// one after the other, one for Ping, and room for two that are being made.
	connections = 4
	// connectTimeout bounds the making of a connection, unless OpTimeout is
	// longer, so that a slow handshake succeeds although OpTimeout is short.
	connectTimeout = time.Second
	// maxIdle is when an idle connection is closed. Load balancers and NAT
	// forget connections, silently, after some minutes.
	maxIdle = 3 * time.Minute
)

// Validate returns what is wrong with the options, nil if nothing is. It does not
// connect. The error holds no password.
func (o *Options) Validate() error {
	_, _, err := o.universal()
	return err
}

// universal turns o into options of go-redis, whose dialer it returns, too.
func (o *Options) universal() (*redis.UniversalOptions, *dialer, error) {
	if o.OpTimeout < 0 {
		return nil, nil, fmt.Errorf("redis op timeout %v: must not be negative", o.OpTimeout)
	}
	a, err := o.address()
	if err != nil {
		return nil, nil, fmt.Errorf("redis URL %w", err) // which is not shown: anything in it may be a password
	}
	user, sentinelUser, err := o.logins(a)
	if err != nil {
		return nil, nil, err
	}
	encrypt := o.TLS
	switch {
	case encrypt != nil && a.Network == "unix":
		return nil, nil, errors.New("redis URL is that of a unix socket, which does not speak TLS")
	case encrypt == nil && a.TLSConfig != nil: // of rediss://
		encrypt = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} } // the dialer knows the host
	}

	timeout := cmp.Or(o.OpTimeout, DefaultOpTimeout)
	connect := max(timeout, connectTimeout)
	connect = min(connect, cmp.Or(o.ConnectTimeout, connect))
	size := connections
	if o.Type == Cluster {
		size = cmp.Or(o.PoolSize, DefaultPoolSize)
	}
	d := newDialer(a.Network, encrypt)
	u := &redis.UniversalOptions{
		Addrs: a.addrs, MasterName: a.primary, IsClusterMode: o.Type == Cluster,
		DB: a.DB, Username: user.name, Password: user.password,
		SentinelUsername: sentinelUser.name, SentinelPassword: sentinelUser.password,
		Dialer: d.dial,

		ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled: true,
		DialTimeout:           connect,
		DialerRetries:         1,
		MaxRetries:            -1, // a repeated call would charge twice

		PoolSize: size, MaxConcurrentDials: size,
		PipelinePoolSize: -1, // none
		ConnMaxIdleTime:  maxIdle,

		// Say nothing but what a call needs: no CLIENT SETINFO, no CLIENT
		// MAINT_NOTIFICATIONS, no pushed messages.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	ofSentinels := newDialer(a.Network, encrypt)
	if o.Latest != nil {
		d.changing = newChanging(o, timeout, target{o.single(a), user})
		ofSentinels.changing = newChanging(o, timeout, target{"", sentinelUser})
		u.Username, u.Password, u.SentinelUsername, u.SentinelPassword = "", "", "", "" // the dialers log in
	}
	if o.Type == Sentinel {
		d.sentinels = newSentinels(u, ofSentinels)
	}
	return u, d, nil
}

// single returns the address of the one server, "" if sentinels or a cluster know it.
func (o *Options) single(a address) string {
	if o.Type == Sentinel || o.Type == Cluster {
		return ""
	}
	return a.Addr
}

// CheckChange returns why a client that is open cannot go on with next instead of o, which
// differs in URL, users and passwords. The error holds nothing of them.
func (o *Options) CheckChange(next Options) error {
	before, err := o.address()
	if err != nil {
		return fmt.Errorf("redis URL %w", err)
	}
	after, err := next.address()
	if err != nil {
		return fmt.Errorf("redis URL %w", err)
	}
	switch {
	case before.DB != after.DB:
		return errors.New("redis URL has another database, which takes a restart")
	case before.Network != after.Network || (before.TLSConfig == nil) != (after.TLSConfig == nil):
		return errors.New("redis URL has another scheme, which takes a restart")
	case o.Type == Cluster && !slices.Equal(before.addrs, after.addrs):
		return errors.New("redis URL has other addresses of a cluster, which takes a restart")
	}
	return nil
}

// login is a user, whose name may be empty, and a password.
type login struct{ name, password string }

// or returns l, with what it lacks from other if it has no password.
func (l login) or(other login) login {
	if l.password != "" {
		return l
	}
	return login{cmp.Or(l.name, other.name), other.password}
}

// logins returns the users and passwords of Redis and of its sentinels. The URL may
// hold one: of a list of sentinels it is theirs.
func (o *Options) logins(a address) (user, sentinelUser login, err error) {
	user = login{a.Username, a.Password}
	if o.Type == Sentinel {
		user, sentinelUser = login{}, user.or(login{o.SentinelUsername, o.SentinelPassword})
	}
	user = user.or(login{o.Username, o.Password})
	switch {
	case user.name != "" && user.password == "":
		err = errors.New("redis user has no password")
	case sentinelUser.name != "" && sentinelUser.password == "":
		err = errors.New("sentinel user has no password")
	}
	return user, sentinelUser, err
}
