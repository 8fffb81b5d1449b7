package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"weir/internal/testenv"
)

// TestRollingRestart restarts two servers one after the other, while two Envoys
// and a plain gRPC client ask both all the time, and no call may fail. One Envoy
// checks their health, the other asks a DNS for their addresses as often as it does by
// default, as behind the Service of the chart; the client only balances between them.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	rules := writeRules(t, `
domain: api
descriptors:
  - {key: user, value: envoy, rate_limit: {unit: year, requests_per_unit: 1000000000}}
  - {key: user, value: dns, rate_limit: {unit: year, requests_per_unit: 1000000000}}
  - {key: user, value: client, rate_limit: {unit: year, requests_per_unit: 1000000000}}
`)
	// Addresses that nobody else uses, because the port must be had again.
	hosts := []string{"127.0.0.2", "127.0.0.3"}
	port := "0"
	start := func(host string) *weir {
		return startWeir(t, rules, "GRPC_HOST="+host, "GRPC_PORT="+port)
	}
	var servers []*weir
	for _, host := range hosts {
		servers = append(servers, start(host))
		_, port, _ = net.SplitHostPort(servers[0].grpc)
	}
	checked := gateway{cluster: documentedBlock(t, "docs/operations.md", "health_checks:")}.bootstrap(t, servers[0].grpc, servers[1].grpc)
	ready := startDNS(t, hosts...)
	resolved := gateway{cluster: ready.cluster}.bootstrap(t, servers[0].grpc)
	get(t, resolved, "static_resources", "clusters", 0, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address", "socket_address")["address"] = "weir.test"
	load := startLoad(t, map[string]func() error{
		"envoy":  throughEnvoy(runEnvoy(t, checked), "envoy"),
		"dns":    throughEnvoy(runEnvoy(t, resolved), "dns"),
		"client": balanced(t, servers[0].grpc, servers[1].grpc),
	})
	for i, host := range hosts {
		load.wantReaches(servers[i])
		load.wantReaches(servers[1-i])
		servers[i].signal(syscall.SIGTERM)
		testenv.Pass(2 * time.Second) // that Kubernetes takes
		ready.set(hosts[1-i])
		servers[i].wantExit(0)
		servers[i] = start(host)
		ready.set(hosts...)
	}
	load.wantReaches(servers[1])
	t.Logf("%d calls", load.stop())
}

// load asks in several ways at once until it is stopped.
type load struct {
	t     *testing.T
	users []string
	calls atomic.Int64
	end   chan struct{}
	stop  func() int64 // ends the load and returns the number of calls
}

// startLoad asks in each of the ways, named after the user they ask for, with
// four workers. A call that fails fails the test.
func startLoad(t *testing.T, ways map[string]func() error) *load {
	t.Helper()
	l := &load{t: t, end: make(chan struct{})}
	var tasks sync.WaitGroup
	for user, ask := range ways {
		l.users = append(l.users, user)
		for range 4 {
			tasks.Go(func() {
				every := time.NewTicker(5 * time.Millisecond)
				defer every.Stop()
				for {
					if err := ask(); err != nil { // a call is never cut off
						t.Errorf("call %d, of %s: %v", l.calls.Load(), user, err)
					}
					l.calls.Add(1)
					select {
					case <-l.end:
						return
					case <-every.C:
					}
				}
			})
		}
	}
	l.stop = sync.OnceValue(func() int64 {
		close(l.end)
		tasks.Wait()
		return l.calls.Load()
	})
	t.Cleanup(func() { l.stop() })
	return l
}

// wantReaches waits until a server is asked in all ways.
func (l *load) wantReaches(w *weir) {
	l.t.Helper()
	for _, user := range l.users {
		hits := func() float64 { return w.metric("ratelimit_service_rate_limit_total_hits", "user_"+user) }
		before := hits()
		testenv.Eventually(l.t, func() error {
			if now := hits(); now <= before {
				return errors.Join(fmt.Errorf("%v requests of %s", now, user), w.ended())
			}
			return nil
		})
	}
}

// throughEnvoy asks for a user with an HTTP request that Envoy forwards.
func throughEnvoy(e *envoy, user string) func() error {
	client := &http.Client{Timeout: patience}
	e.t.Cleanup(client.CloseIdleConnections)
	return func() error {
		a, err := fetchBy(client, "http://"+e.addr+"/", by(user)...)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("status %d", a.status)
		}
		return err
	}
}

// balanced asks for the user client with a gRPC client that knows all addresses
// and asks one after the other.
func balanced(t *testing.T, addrs ...string) func() error {
	t.Helper()
	known := manual.NewBuilderWithScheme("known")
	var state resolver.State
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	known.InitialState(state)
	client := service.NewRateLimitServiceClient(connection(t, "known:///", grpc.WithResolvers(known),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`)))
	return func() error {
		_, err := decide(client, request(descriptor("user", "client")))
		return err
	}
}

// dns answers with the addresses that it has for every name.
type dns struct {
	cluster string // fields of a cluster of Envoy that asks it
	hosts   atomic.Pointer[[]string]
}

func startDNS(t *testing.T, hosts ...string) *dns {
	t.Helper()
	conn := testenv.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { conn.Close() })
	d := &dns{cluster: fmt.Sprintf(`
type: STRICT_DNS
dns_lookup_family: V4_ONLY
typed_dns_resolver_config:
  name: envoy.network.dns_resolver.cares
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
    resolvers: [{socket_address: {protocol: UDP, address: 127.0.0.1, port_value: %d}}]
    dns_resolver_options: {no_default_search_domain: true}
`, conn.LocalAddr().(*net.UDPAddr).Port)}
	d.set(hosts...)
	go d.serve(t, conn)
	return d
}

func (d *dns) set(hosts ...string) { d.hosts.Store(&hosts) }

// serve answers until conn is closed.
func (d *dns) serve(t *testing.T, conn net.PacketConn) {
	packet := make([]byte, 512)
	for {
		n, from, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(packet[:n]); err != nil {
			t.Error(err)
			return
		}
		m.Response, m.Additionals = true, nil
		for _, host := range *d.hosts.Load() {
			header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 30}
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: netip.MustParseAddr(host).As4()}})
		}
		answer, err := m.Pack()
		if err == nil {
			_, err = conn.WriteTo(answer, from)
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}
