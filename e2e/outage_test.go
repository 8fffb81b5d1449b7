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

// closedAndOpen starts a stack whose Envoy denies what Weir cannot decide, and a second
// Envoy that lets it pass. Each has the status of such a request.
func closedAndOpen(t *testing.T) (closed *stack, undecided map[*envoy]int) {
	t.Helper()
	closed = gateway{}.start(t, userRules(2))
	open := runEnvoy(t, gateway{rateLimit: "failure_mode_deny: false"}.bootstrap(t, closed.weir.grpc))
	return closed, map[*envoy]int{closed.envoy: 500, open: 200}
}

// hold makes Redis take the scripts of Weir and hold them back until release.
func hold(r *testenv.Redis)    { r.Command("CLIENT PAUSE 60000 WRITE") }
func release(r *testenv.Redis) { r.Command("CLIENT UNPAUSE") }

// waitForHeldScript waits until a Redis on hold has a script of Weir.
func waitForHeldScript(t *testing.T, r *testenv.Redis) {
	t.Helper()
	testenv.Until(t, "Redis holds a script back", func() bool { return !strings.Contains(r.Command("INFO clients"), "blocked_clients:0\r") })
}

func TestEnvoyDecidesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s, undecided := closedAndOpen(t)
	s.want("/", "x-user: alice", 200, 200, 429)
	s.redis.Stop()
	for e, status := range undecided {
		e.want("/", "x-user: bob", times(3, status)...) // alice is remembered to be over
	}
	// Another server would not do better: this one stays in service.
	if a, err := fetch("http://" + s.weir.http + "/healthcheck"); err != nil || a.status != 200 {
		t.Errorf("health check without Redis: %d %s, %v; want 200", a.status, a.body, err)
	}
	s.redis.Start()
	// The counters went with the old Redis.
	testenv.Becomes(t, "status", 200, func() int { return s.ask("/", "x-user: alice").status })
	s.want("/", "x-user: alice", 200, 429)
}

// Requests that wait for Redis when it dies are answered because of that, not
// because somebody's patience ends, and decisions go on when it is back.
func TestRequestsInFlightWhenRedisDies(t *testing.T) {
	t.Parallel()
	s, undecided := closedAndOpen(t)
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
	s.redis.Start()
	testenv.Until(t, "Weir decides again", func() bool { return s.ask("/", by("probe")...).status != 500 })
	s.want("/", "x-user: alice", 200, 200, 429)
}

// A decision that is under way when the process is told to end is still given, and the
// process ends with exit code 0. Timeout 0 lets Envoy wait for as long as that takes.
func TestTerminationDrains(t *testing.T) {
	t.Parallel()
	s := gateway{rateLimit: "timeout: 0s"}.start(t, userRules(2), "DRAIN_TIMEOUT=50s")
	s.want("/", "x-user: alice", 200)
	hold(s.redis)
	answers := s.askInBackground("/", "alice")
	waitForHeldScript(t, s.redis)
	s.weir.signal(syscall.SIGINT) // without the pause that comes after SIGTERM
	testenv.Until(t, "Weir listens no more", func() bool {
		conn, err := net.Dial("tcp", s.weir.grpc)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	release(s.redis)
	if a := <-answers; a.status != 200 {
		t.Errorf("the request in flight got %d, want 200", a.status)
	}
	s.weir.wantExit(0)
}

// A process that is told to end fails its health check and serves on, until the
// pause is over or somebody cuts it short.
func TestPauseBeforeTheDrain(t *testing.T) {
	t.Parallel()
	const ever = 10 * time.Minute // longer than anybody waits
	for name, test := range map[string]struct {
		delay  time.Duration
		second syscall.Signal // after the pause is seen, or 0 if it ends by itself
	}{
		"ends by itself":             {time.Second, 0},
		"ends with a second SIGTERM": {ever, syscall.SIGTERM},
		"ends with SIGINT":           {ever, syscall.SIGINT},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWeir(t, "config", "DRAIN_DELAY="+test.delay.String())
			begin := time.Now()
			w.signal(syscall.SIGTERM)
			if test.second != 0 {
				w.waitForHealth(500, "draining\n")
				w.remaining("user", "alice") // on a new connection
				w.signal(test.second)
			}
			w.wantExit(0)
			if took := time.Since(begin); test.delay != ever && took < test.delay {
				t.Errorf("the pause took %v, want %v", took, test.delay)
			}
		})
	}
}

// Envoy reaches Weir over a unix socket, also after a Weir that was killed and
// left the socket behind.
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

// TestBan lets a client of a real Envoy exceed a limit that bans, knock until the ban
// ends, and come back then: with counters in Redis, and in memory.
func TestBan(t *testing.T) {
	const ban = 4 * time.Second
	inEachStore(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 2, deny_for: 4s}}]\n", func(t *testing.T, s *stack) {
		var a answer
		var asked time.Time
		knock := func() int {
			asked = time.Now()
			a = s.ask("/", by("alice")...)
			return a.status
		}
		for knock() != 429 { // until three come within a second
		}
		begins, began := asked, time.Now() // the ban begins in between
		if got := a.header.Get("retry-after"); got != "4" {
			t.Errorf("retry-after is %s, want 4", got)
		}
		s.want("/", "x-user: bob", 200)
		knocks := 0
		for ; time.Since(began) < ban-500*time.Millisecond; knocks++ {
			status := knock()
			wait, err := time.ParseDuration(a.header.Get("retry-after") + "s")
			if status != 429 || err != nil {
				t.Fatalf("%v after the ban began: status %d, retry-after %q", asked.Sub(began), status, a.header.Get("retry-after"))
			}
			// It is in whole seconds, and later by less than one for a client that comes often.
			if time.Now().Add(wait).Before(begins.Add(ban)) || asked.Add(wait).After(began.Add(ban+2*time.Second)) {
				t.Errorf("%v after the ban began: retry-after is %v", asked.Sub(began), wait)
			}
			testenv.Pass(200 * time.Millisecond)
		}
		if knocks < 5 {
			t.Errorf("only %d knocks", knocks)
		}
		testenv.Pass(time.Until(began.Add(ban)))
		if got := knock(); got != 200 {
			t.Errorf("after the ban: status %d", got)
		}
		if s.redis == nil {
			return
		}

		for knock() != 429 {
		}
		if keys, deleted := s.redis.Command("DBSIZE"), s.redis.Command("DEL w1|api|user=alice|1s"); keys != "1" || deleted != "1" {
			t.Errorf("%s keys, of which %s is deleted; want 1 and 1", keys, deleted)
		}
		testenv.Pass(time.Second + 100*time.Millisecond) // for which used-up limits are remembered
		if got := knock(); got != 200 {
			t.Errorf("after the ban was lifted: status %d", got)
		}
	})
}

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
	defer load.stop() // before the servers end
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
}

// load asks in several ways at once until it is stopped.
type load struct {
	t     *testing.T
	users []string
	stop  func()
}

// startLoad asks in each of the ways, named after the user they ask for, with
// four workers. A call that fails fails the test.
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
					if err := ask(); err != nil { // a call is never cut off
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
		a, err := exchange(client, http.MethodGet, "http://"+e.addr+"/", "", by(user)...)
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
