package admin

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// gate lets so many requests in at a time, and answers 503 to the others. Slow
// readers would keep all places: so a request that is in for longer than its time, or
// shares its address with another one, gives way to the next, and is cut off. An
// address that was served lately, such as Prometheus', comes in before others.
type gate struct {
	what string // of the requests, for the answer
	most int
	time time.Duration // that nobody takes from a request, 0: none gives way

	mu sync.Mutex
	in []*guest // in the order in which they came
	// leaving are cut off, and on their way out.
	leaving map[*guest]bool
	// served is when an address was last served to the end.
	served map[string]time.Time
}

const (
	// servedLately is for how long an address counts as served.
	servedLately = 5 * time.Minute
	// mostServed bounds the addresses that are remembered. Further ones are not.
	mostServed = 1024
)

// guest is a request that a gate let in.
type guest struct {
	since time.Time
	host  string // of the client
	conn  *http.ResponseController
}

func newGate(what string, most int, keep time.Duration) *gate {
	return &gate{what: what, most: most, time: keep, leaving: map[*guest]bool{}, served: map[string]time.Time{}}
}

// around returns next behind the gate.
func (g *gate) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guest := &guest{since: time.Now(), host: host(r.RemoteAddr), conn: http.NewResponseController(w)}
		if !g.enter(guest) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%s: too many requests at a time, served are at most %d", g.what, g.most), http.StatusServiceUnavailable)
			return
		}
		defer g.leave(guest)
		next.ServeHTTP(w, r)
		if r.Context().Err() == nil {
			g.note(guest, time.Now())
		}
	})
}

// enter reports whether a request may come in, and makes room for it.
func (g *gate) enter(next *guest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.in) >= g.most {
		i := g.whoGivesWay(next)
		if i < 0 || len(g.leaving) >= g.most {
			return false
		}
		old := g.in[i]
		g.in = slices.Delete(g.in, i, i+1)
		g.leaving[old] = true
		_ = old.conn.SetReadDeadline(next.since) // which is over; the connection may have gone
		_ = old.conn.SetWriteDeadline(next.since)
	}
	g.in = append(g.in, next)
	return true
}

// whoGivesWay is the place of the one in g that gives way to next, or -1: the
// oldest of the address that has the most, if that has more than the address of
// next will have, else the oldest, if its time is over.
func (g *gate) whoGivesWay(next *guest) int {
	if g.time == 0 {
		return -1
	}
	hosts := map[string]int{next.host: 1}
	for _, guest := range g.in {
		hosts[guest.host]++
	}
	most := mostOf(hosts)
	for i, guest := range g.in {
		if guest.host == most && hosts[most] > hosts[next.host] {
			return i
		}
	}
	if next.since.Sub(g.in[0].since) > g.time {
		return 0
	}
	return g.servedLater(next)
}

// servedLater is the place of the oldest in g whose address was not served lately, or
// else of the one whose address was served last, if that was after the address of
// next. It is -1 if there is none, or the address of next was not served lately.
func (g *gate) servedLater(next *guest) int {
	since, known := g.served[next.host]
	if !known || next.since.Sub(since) > servedLately {
		return -1
	}
	last := -1
	for i, guest := range g.in {
		switch served, known := g.served[guest.host]; {
		case !known:
			return i
		case served.After(since):
			last, since = i, served
		}
	}
	return last
}

// note remembers that a guest was served, unless it was cut off.
func (g *gate) note(guest *guest, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leaving[guest] {
		return
	}
	if _, known := g.served[guest.host]; !known && len(g.served) >= mostServed {
		maps.DeleteFunc(g.served, func(_ string, at time.Time) bool { return now.Sub(at) > servedLately })
		if len(g.served) >= mostServed {
			return
		}
	}
	g.served[guest.host] = now
}

func (g *gate) leave(guest *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.leaving, guest)
	if i := slices.Index(g.in, guest); i >= 0 {
		g.in = slices.Delete(g.in, i, i+1)
	}
}

// mostOf is the host that has the most.
func mostOf(hosts map[string]int) (most string) {
	for host, n := range hosts {
		if n > hosts[most] {
			most = host
		}
	}
	return most
}

// host is that of an address host:port. Of IPv6 it is the network of 64 bits, all
// addresses of which one machine may have.
func host(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	network, _ := ip.WithZone("").Prefix(64)
	return network.String() + ip.Zone()
}
