package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
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

// hold makes Redis accept Weir's scripts, but run them only after release.
func hold(r *testenv.Redis)    { r.Command("CLIENT PAUSE 60000 WRITE") }
func release(r *testenv.Redis) { r.Command("CLIENT UNPAUSE") }

// waitForHeldScript waits until Redis has received a script after hold.
func waitForHeldScript(t *testing.T, r *testenv.Redis) {
	t.Helper()
	testenv.Until(t, "Redis holds a script back", func() bool { return !strings.Contains(r.Command("INFO clients"), "blocked_clients:0\r") })
}

// Requests that wait for Redis when it dies are answered at once, without a timeout. While Redis is
// away, Weir stays in service, and each Envoy denies or admits requests as it is configured to.
// Decisions continue when Redis is back.
func TestRequestsInFlightWhenRedisDies(t *testing.T) {
	t.Parallel()
	s := gateway{}.start(t, userRules(2))
	open := runEnvoy(t, gateway{rateLimit: "failure_mode_deny: false"}.bootstrap(t, s.weir.grpc))
	undecided := map[*envoy]int{s.envoy: 500, open: 200} // status of a request that Weir cannot decide
	s.want("/", "x-user: alice", 200)
	hold(s.redis)
	var requests sync.WaitGroup
	for range 5 {
		for e, status := range undecided {
			requests.Go(func() {
				if a, err := fetch("http://"+e.addr+"/", by("alice")...); err != nil || a.status != status {
					t.Errorf("status %d, %v; want %d", a.status, err, status)
				}
			})
		}
	}
	waitForHeldScript(t, s.redis)
	s.redis.Stop()
	requests.Wait()
	s.weir.waitForMetric(`weir_redis_errors_total{kind="timeout"} 0`)
	for e, status := range undecided {
		e.want("/", "x-user: bob", times(3, status)...)
	}
	s.weir.waitForHealth(200, "") // other servers would fail, too, so this one stays in service
	s.redis.Start()
	testenv.Until(t, "Weir decides again", func() bool { return s.ask("/", by("probe")...).status != 500 })
	s.want("/", "x-user: alice", 200, 200, 429) // the counters were lost when Redis stopped
}

// A decision that is in progress when the process gets a signal is completed, and the process
// exits with code 0. With timeout 0, Envoy waits without limit.
func TestTerminationDrains(t *testing.T) {
	t.Parallel()
	s := gateway{rateLimit: "timeout: 0s"}.start(t, userRules(2), "DRAIN_TIMEOUT=50s")
	s.want("/", "x-user: alice", 200)
	hold(s.redis)
	answers := s.askInBackground("/", "alice")
	waitForHeldScript(t, s.redis)
	s.weir.signal(syscall.SIGINT) // skips the pause that SIGTERM begins
	testenv.Until(t, "Weir listens no more", func() bool {
		conn, err := net.Dial("tcp", s.weir.grpc)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	release(s.redis)
	testenv.Equal(t, (<-answers).status, 200, "status of the request in flight")
	s.weir.wantExit(0)
}

// After SIGTERM, a process fails its health check and continues to serve during a pause, which
// a second signal ends. Package server tests how long the pause lasts without it.
func TestPauseBeforeTheDrain(t *testing.T) {
	t.Parallel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(second.String(), func(t *testing.T) {
			t.Parallel()
			w := startWeir(t, "config", "DRAIN_DELAY=10m") // longer than patience
			w.signal(syscall.SIGTERM)
			w.waitForHealth(500, "draining\n")
			w.remaining("user", "alice") // on a new connection
			w.signal(second)
			w.wantExit(0)
		})
	}
}

// Envoy reaches Weir over a unix socket, even if a killed Weir has left the socket behind.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	setting := "GRPC_UDS=" + filepath.Join(t.TempDir(), "weir.sock")
	s := gateway{memory: true}.start(t, userRules(2), setting)
	if !strings.HasPrefix(s.weir.grpc, "unix:") {
		t.Errorf("gRPC is at %s", s.weir.grpc)
	}
	s.want("/", "x-user: alice", 200, 200, 429)
	s.weir.kill()
	startWeir(t, s.rules, setting)
	testenv.Until(t, "Weir decides again", func() bool { return s.ask("/", by("probe")...).status != 500 })
	s.want("/", "x-user: alice", 200, 200, 429) // the counters were in memory
}

// TestRollingRestart restarts two servers one after the other, while two Envoys and a gRPC
// client send requests to both. No call may fail. One Envoy checks the health of the servers.
// The other resolves their addresses by DNS at the default interval, as it does with the
// chart's Service. The client balances between the two addresses.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	rules := writeRules(t, `
domain: api
descriptors:
  - {key: user, value: envoy, rate_limit: {unit: year, requests_per_unit: 1000000000}}
  - {key: user, value: dns, rate_limit: {unit: year, requests_per_unit: 1000000000}}
  - {key: user, value: client, rate_limit: {unit: year, requests_per_unit: 1000000000}}
`)
	// Other programs do not use these addresses, so the port is still free after a restart.
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
	defer load.stop() // before the servers end
	for i, host := range hosts {
		load.wantReaches(servers[i])
		load.wantReaches(servers[1-i])
		servers[i].signal(syscall.SIGTERM)
		testenv.Pass(2 * time.Second) // until Kubernetes removes the address
		ready.set(hosts[1-i])
		servers[i].wantExit(0)
		servers[i] = start(host)
		ready.set(hosts...)
	}
	load.wantReaches(servers[1])
}

// load sends requests in several ways at once until it is stopped.
type load struct {
	t     *testing.T
	users []string
	stop  func()
}

// startLoad starts four workers for each of the ways. The keys of ways are the users in the
// requests. A failed call fails the test.
func startLoad(t *testing.T, ways map[string]func() error) *load {
	t.Helper()
	l := &load{t: t}
	var calls atomic.Int64
	var tasks sync.WaitGroup
	end := make(chan struct{})
	for user, ask := range ways {
		l.users = append(l.users, user)
		for range 4 {
			tasks.Go(func() {
				for every := time.Tick(5 * time.Millisecond); ; {
					if err := ask(); err != nil { // no call is cancelled, so each must succeed
						t.Errorf("call %d, of %s: %v", calls.Load(), user, err)
					}
					calls.Add(1)
					select {
					case <-end:
						return
					case <-every:
					}
				}
			})
		}
	}
	l.stop = func() {
		close(end)
		tasks.Wait()
		t.Logf("%d calls", calls.Load())
	}
	return l
}

// wantReaches waits until a server has received requests in all ways.
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

// throughEnvoy returns a function that sends an HTTP request of a user through Envoy.
func throughEnvoy(e *envoy, user string) func() error {
	client := &http.Client{Timeout: patience}
	e.t.Cleanup(client.CloseIdleConnections)
	return func() error {
		a, err := exchange(client, http.MethodGet, "http://"+e.addr+"/", "", by(user)...)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("status %d", a.status)
		}
		return err
	}
}

// balanced returns a function that sends a gRPC request of the user client. The requests go to
// the addresses in turn.
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

// dns is a DNS server that returns its hosts for every name.
type dns struct {
	cluster string // fields of an Envoy cluster that uses this server
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
	go func() {
		packet := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return // the test ends
			}
			answer, err := d.answer(packet[:n])
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.WriteTo(answer, from)
		}
	}()
	return d
}

func (d *dns) set(hosts ...string) { d.hosts.Store(&hosts) }

func (d *dns) answer(packet []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	for _, host := range *d.hosts.Load() {
		header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 30}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: netip.MustParseAddr(host).As4()}})
	}
	return m.Pack()
}
