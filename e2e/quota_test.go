package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/testenv"
)

// TestQuotaExampleReadme runs the README of the example with one Weir, in memory, and two Envoys.
func TestQuotaExampleReadme(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	const dir = "examples/rlqs"
	validateBootstrap(t, filepath.Join(testenv.Repository(t), dir, "envoy.yaml"))
	redis := testenv.RedisServer(t)
	var server, second *weir
	var envoys [2]*envoy
	var upstream string
	run := func(i int, servers ...string) {
		g := gateway{example: dir + "/envoy.yaml", upstream: upstream}
		envoys[i] = runEnvoy(t, g.bootstrap(t, servers...))
	}
	start := func(i int) func(string) { return func(string) { run(i, server.grpc, testenv.OwnAddr(t)) } }
	again := func(command string) *weir {
		return serveByShell(t, "QUOTA_SHARE_LIFE=6s "+strings.NewReplacer("127.0.0.1:6379", redis.Addr(), "GRPC_PORT=8181 ", "").Replace(command))
	}
	shares := func() {
		t.Helper()
		o := operator{t, t.TempDir(), server.debug}
		o.shell("weir top --budgets", `127.0.0.1:\d+ +api tenant=a, 100 per second\n`)
		testenv.Lacks(t, o.shell("weir top --budgets web"), "tenant")
		testenv.Contains(t, server.page("/console/budgets"), "Shares of Envoys", "domain=api&amp;descriptor=tenant%3da")
		peek := o.shell("weir peek api tenant=a", "Envoys divide 100 per second, at most 100 at once. They ask for no request")
		testenv.Lacks(t, peek, "No rule", "denied")
		page := server.page("/console/descriptor?domain=api&descriptor=tenant%3Da")
		testenv.Contains(t, page, "Envoys divide 100 per second")
		testenv.Lacks(t, page, "What to do")
		testenv.Contains(t, server.page("/console/rules"), "quota_service, see")
	}
	const serves = "go run ./cmd/server --config " + dir + "/rules"
	walk{asks: 4, repeats: "for port|2000|metrics|tenant: b", starts: map[string]func(string){
		serves: func(command string) {
			server = serveByShell(t, "QUOTA_SHARE_LIFE=6s "+command)
		},
		"REDIS_URL=127.0.0.1:6379 " + serves: func(command string) {
			shares()
			server.kill()
			server = again(command)
		},
		"GRPC_PORT=8181 REDIS_URL=127.0.0.1:6379 " + serves: func(command string) {
			second = again(command)
			run(0, server.grpc, second.grpc) // the ports are others
			run(1, server.grpc, second.grpc)
		},
		"go run ./examples/envoy/echo": func(command string) {
			upstream = startExampleUpstream(t, command+" -listen 127.0.0.1:0")
		},
		".tools/envoy/bin/envoy -c " + dir + "/envoy.yaml --log-level warn":                                                                                    start(0),
		"sed 's/8888/8889/; s/9901/9902/' " + dir + "/envoy.yaml >/tmp/second.yaml && .tools/envoy/bin/envoy -c /tmp/second.yaml --base-id 1 --log-level warn": start(1),
	}, addrs: func() *strings.Replacer {
		_, first, _ := strings.Cut(envoys[0].addr, ":")
		_, second, _ := strings.Cut(envoys[1].addr, ":")
		return strings.NewReplacer("8888", first, "8889", second, "127.0.0.1:9090", server.metrics)
	}}.through(t, dir+"/README.md")
	if server.metric("weir_quota_streams", "") == 0 {
		server, second = second, server
	}
	server.kill()
	stop := make(chan struct{})
	defer close(stop)
	go flood(envoys[1], "a", 20, stop, func() {})
	second.waitForMetric("weir_quota_streams 1")
	explained := output(t, program(t)+" explain --config "+dir+"/rules api tenant=a")
	testenv.Contains(t, explained, "Envoys divide 100 per second, at most 100 at once")
}

// flood sends requests of a tenant to an Envoy at a rate until stop is closed, and calls admitted for
// those that pass.
func flood(e *envoy, tenant string, perSecond int, stop <-chan struct{}, admitted func()) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		r, _ := http.NewRequest(http.MethodGet, "http://"+e.addr, nil)
		r.Header.Set("x-tenant", tenant)
		if a, err := client.Do(r); err == nil { // otherwise, Envoy was killed
			a.Body.Close()
			if a.StatusCode == http.StatusOK {
				admitted()
			}
		}
	}
}

// TestQuotaIsDivided floods two Envoys on two servers with one Redis, at 9 to 1. Together they never
// exceed the bound, also when a server is killed or drained. When the first Envoy is killed, the
// second gets its share. When its server is drained, another takes over.
func TestQuotaIsDivided(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	redis := testenv.RedisServer(t)
	env := []string{"REDIS_URL=" + redis.Addr(), "QUOTA_SHARE_LIFE=6s", "REDIS_TIMEOUT=1s", "DRAIN_DELAY=2s"}
	upstream := serve(t, echo)
	var servers [3]*weir
	for i := range servers {
		servers[i] = startWeir(t, "examples/rlqs/rules", env...)
	}
	var envoys [2]*envoy
	for i, addrs := range [][]string{{servers[0].grpc}, {servers[1].grpc, servers[2].grpc}} {
		g := gateway{example: "examples/rlqs/envoy.yaml", upstream: upstream}
		envoys[i] = runEnvoy(t, g.bootstrap(t, addrs...))
	}
	const limit, slack = 100.0, 100.0 // requests per second; delay of answers, and of this machine
	meters := []meter{{limit: limit}}
	var stop [2]chan struct{}
	begin := func(i, rate int) {
		stop[i] = make(chan struct{})
		go flood(envoys[i], "a", rate, stop[i], func() { meters[0].admitted(i) })
	}
	begin(0, 270)
	begin(1, 30)
	defer func() { close(stop[1]) }()
	atLeast := func(least, other int) func(n, first, second int) bool {
		return func(_, first, second int) bool { return first >= least && second >= other }
	}
	waitForAdmitted(t, "both", meters, atLeast(90, 40))
	servers[0].kill()
	waitForAdmitted(t, "a server is killed", meters, atLeast(0, 40))
	close(stop[0])
	envoys[0].kill()
	close(stop[1])
	begin(1, 200)
	waitForAdmitted(t, "the other Envoy is killed", meters, atLeast(0, 160))
	drained, other := servers[1], servers[2]
	if drained.metric("weir_quota_streams", "") == 0 {
		drained, other = other, drained
	}
	drained.signal(syscall.SIGTERM)
	drained.wantExit(0)
	other.waitForMetric("weir_quota_streams 1")
	waitForAdmitted(t, "its server is drained", meters, atLeast(0, 160))
	wantAtMost(t, meters, limit+slack)
}

// meter counts what two Envoys admit, and how much of a bucket that drains at the rate of the limit.
type meter struct {
	mu    sync.Mutex
	limit float64 // per second
	last  time.Time
	level float64
	most  float64
	by    [2]int
}

func (m *meter) admitted(envoy int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.level = max(0, m.level-m.limit*now.Sub(m.last).Seconds()) + 1
	m.most, m.last = max(m.most, m.level), now
	m.by[envoy]++
}

// admittedBy returns how many requests the Envoys have admitted, for each meter.
func admittedBy(meters []meter) (by [][2]int) {
	for n := range meters {
		m := &meters[n]
		m.mu.Lock()
		by = append(by, m.by)
		m.mu.Unlock()
	}
	return by
}

// waitForAdmitted waits until ok accepts what the first and the second Envoy admit in two seconds, for each meter.
func waitForAdmitted(t *testing.T, when string, meters []meter, ok func(n, first, second int) bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		before := admittedBy(meters)
		testenv.Pass(2 * time.Second)
		for n, by := range admittedBy(meters) {
			if first, second := by[0]-before[n][0], by[1]-before[n][1]; !ok(n, first, second) {
				return fmt.Errorf("%s: %d and %d were admitted in two seconds of limit %d", when, first, second, n)
			}
		}
		return nil
	})
}

func wantAtMost(t *testing.T, meters []meter, most float64) {
	t.Helper()
	for n := range meters {
		m := &meters[n]
		m.mu.Lock()
		used := m.most
		m.mu.Unlock()
		if used > most {
			t.Errorf("%.0f of limit %d were used at once, at most %.0f may be", used, n, most)
		}
	}
}

// TestQuotaInCluster divides limits among two servers on a Redis Cluster, whose nodes have different
// tenants.
func TestQuotaInCluster(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	var addrs []string
	for _, node := range testenv.RedisCluster(t, 3, 0, "--cluster-node-timeout", "60000") {
		addrs = append(addrs, node.Addr())
	}
	upstream, stop := serve(t, echo), make(chan struct{})
	defer close(stop)
	tenants := []string{"a", "b", "c"}
	meters := make([]meter, len(tenants))
	for i := range 2 {
		server := startWeir(t, "examples/rlqs/rules", "REDIS_TYPE=cluster", "REDIS_URL="+strings.Join(addrs, ","), "QUOTA_SHARE_LIFE=6s", "REDIS_TIMEOUT=1s")
		g := gateway{example: "examples/rlqs/envoy.yaml", upstream: upstream}
		e := runEnvoy(t, g.bootstrap(t, server.grpc))
		for n, tenant := range tenants {
			meters[n].limit = 100
			go flood(e, tenant, 90, stop, func() { meters[n].admitted(i) })
		}
	}
	waitForAdmitted(t, "in a cluster", meters, func(_, first, second int) bool { return first >= 70 && second >= 70 && first+second >= 180 })
	wantAtMost(t, meters, 200)
}

// TestQuotaFailureModes stops Redis. After the life of the shares, failure modes decide: for error, Envoy
// decides by its own configuration, here that of the second Envoy admits.
func TestQuotaFailureModes(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	redis := testenv.RedisServer(t)
	modes := []string{"error", "allow", "deny", "local"}
	rules := "domain: api\ndescriptors:\n"
	for _, mode := range modes {
		rules += fmt.Sprintf("- {key: tenant, value: %s, quota_service: true, rate_limit: {unit: second, requests_per_unit: 20, failure_mode: %s}}\n", mode, mode)
	}
	server := startWeir(t, writeRules(t, rules), "REDIS_URL="+redis.Addr(), "QUOTA_SHARE_LIFE=6s", "REDIS_TIMEOUT=1s")
	upstream, stop := serve(t, echo), make(chan struct{})
	defer close(stop)
	meters := make([]meter, len(modes))
	const denies = "fallback_rate_limit: {blanket_rule: DENY_ALL}\n                              deny_response_settings"
	const allows = "expired_assignment_behavior_timeout: 600s\n                                fallback_rate_limit: {blanket_rule: ALLOW_ALL}\n                              deny_response_settings"
	for i, expired := range []string{denies, allows} {
		g := gateway{example: "examples/rlqs/envoy.yaml", upstream: upstream, edit: strings.NewReplacer(denies, expired)}
		e := runEnvoy(t, g.bootstrap(t, server.grpc))
		for n, mode := range modes {
			go flood(e, mode, 60, stop, func() { meters[n].admitted(i) })
		}
	}
	divided := func(_, first, second int) bool { return first+second >= 30 && first+second <= 50 }
	waitForAdmitted(t, "before", meters, divided)
	redis.Stop()
	waitForAdmitted(t, "without Redis", meters, func(n, first, second int) bool {
		switch modes[n] {
		case "error":
			return first == 0 && second > 80
		case "allow":
			return first > 80 && second > 80
		case "deny":
			return first+second == 0
		}
		return divided(n, first, second)
	})
	redis.Start()
	waitForAdmitted(t, "after", meters, divided)
}
