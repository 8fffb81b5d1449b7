package admin

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// connections bound how many are open. A new one gets in whatever the others do,
// because probes and Prometheus come on new ones: of the address that has the most,
// the one that does nothing for longest is closed, or else the oldest.
type connections struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]connection
}

type connection struct {
	host   string
	active bool      // a request is being answered
	since  time.Time // of active, or of its opposite
}

func newConnections(most int) *connections {
	return &connections{most: most, open: map[net.Conn]connection{}}
}

// changed is called for every connection of a server, see http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = connection{host: host(conn.RemoteAddr().String()), since: time.Now()}
		if len(c.open) > c.most {
			idlest := c.idlest(conn)
			delete(c.open, idlest)
			idlest.Close()
		}
	case http.StateActive, http.StateIdle:
		if known, ok := c.open[conn]; ok { // and is not being closed
			c.open[conn] = connection{known.host, state == http.StateActive, time.Now()}
		}
	default:
		delete(c.open, conn)
	}
}

// idlest is the connection that gives way to a new one.
func (c *connections) idlest(newest net.Conn) (idlest net.Conn) {
	hosts := map[string]int{}
	for _, known := range c.open {
		hosts[known.host]++
	}
	most := mostOf(hosts)
	if hosts[most] == 1 {
		most = "" // all are as good
	}
	var best connection
	for conn, known := range c.open {
		if conn == newest || most != "" && known.host != most {
			continue
		}
		if idlest == nil || best.active && !known.active || best.active == known.active && known.since.Before(best.since) {
			idlest, best = conn, known
		}
	}
	return idlest
}
