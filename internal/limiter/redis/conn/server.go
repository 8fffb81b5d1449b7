package conn

import (
	"context"
	"crypto/tls"
	"time"
)

// Server describes a Redis deployment and how to reach it.
type Server struct {
	// Type is the kind of deployment. The zero value means Single.
	Type Type
	// Network is "tcp" or "unix". Empty means tcp.
	Network string
	// Addr is the address of Redis: host:port or a path. For Sentinel and Cluster it may list
	// several, separated by commas: the sentinels, or some of the nodes.
	Addr string
	// Primary is the name that the sentinels use for the primary.
	Primary string
	// DB is the number of the database.
	DB int
	// Username and Password are sent to Redis. A password alone belongs to the default user.
	Username, Password string
	// SentinelUsername and SentinelPassword are sent to the sentinels.
	SentinelUsername, SentinelPassword string
	// TLS, if not nil, encrypts all connections. It is called for each new connection.
	TLS func() *tls.Config
	// PoolSize limits the connections to each node of a cluster; 0 means DefaultPoolSize. Other
	// deployments need only a few connections and ignore it.
	PoolSize int
	// Timeout limits a call, and the time to connect, which continues in the background if the
	// call gives up first. 0 means DefaultTimeout. A negative value is an error.
	Timeout time.Duration
	// Latest, if not nil, returns the server with its current address, users and passwords.
	// The other fields must not change.
	Latest func() Server
	// Renew reads the sources of Latest again, because Redis refused a login. It is required
	// with Latest and returns when ctx is done.
	Renew func(ctx context.Context)
}

// Type is a kind of Redis deployment.
type Type string

// The types of deployment: one server, a primary that sentinels know, or a cluster.
const (
	Single   Type = "single"
	Sentinel Type = "sentinel"
	Cluster  Type = "cluster"
)

// DefaultPoolSize limits the connections to a node of a cluster unless Server.PoolSize is set.
const DefaultPoolSize = 10

// DefaultTimeout limits a call unless Server.Timeout is set. It is short, because every waiting
// request is delayed by a call on a dead connection.
const DefaultTimeout = time.Second

// isSame reports whether s and t have the same address, users and passwords.
func (s Server) isSame(t Server) bool {
	return s.Addr == t.Addr && s.Primary == t.Primary && s.Username == t.Username && s.Password == t.Password &&
		s.SentinelUsername == t.SentinelUsername && s.SentinelPassword == t.SentinelPassword
}
