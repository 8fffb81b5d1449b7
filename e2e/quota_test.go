package e2e

import (
	"fmt"
	"net/http"
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
	var server *weir
	var envoys [2]*envoy
	var upstream string
	start := func(i int) func(string) {
		return func(string) {
			g := gateway{example: dir + "/envoy.yaml", upstream: upstream}
			envoys[i] = runEnvoy(t, g.bootstrap(t, server.grpc))
		}
	}
	walk{asks: 3, repeats: "for port|2000|metrics", starts: map[string]func(string){
		"go run ./cmd/server --config " + dir + "/rules": func(command string) {
			server = serveByShell(t, "QUOTA_SHARE_LIFE=6s "+command)
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
	out := output(t, program(t)+" top --budgets --server "+server.debug)
	if !strings.Contains(out, "api|tenant") {
		t.Errorf("weir top --budgets shows no shares:\n%s", out)
	}
	page := testenv.Must(fetch("http://" + server.debug + "/console/budgets"))(t)
	if !strings.Contains(page.body, "Shares of Envoys") || !strings.Contains(page.body, "api|tenant") {
		t.Errorf("the console shows no shares:\n%s", page.body)
	}
	explained := output(t, program(t)+" explain --config "+dir+"/rules api tenant=a")
	testenv.Contains(t, explained, "Envoys divide 100 per second, at most 100 at once")
}

// flood sends requests to an Envoy at a rate until stop is closed, and calls admitted for those that
// pass.
func flood(e *envoy, perSecond int, stop <-chan struct{}, admitted func()) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		r, _ := http.NewRequest(http.MethodGet, "http://"+e.addr, nil)
		r.Header.Set("x-tenant", "a")
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
	env := []string{"REDIS_URL=" + redis.Addr(), "QUOTA_SHARE_LIFE=6s", "REDIS_TIMEOUT=1s"}
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
	var mu sync.Mutex
	var last time.Time
	level, most := 0.0, 0.0
	counts := [2]int{}
	var stop [2]chan struct{}
	begin := func(i, rate int) {
		stop[i] = make(chan struct{})
		go flood(envoys[i], rate, stop[i], func() {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			level = max(0, level-limit*now.Sub(last).Seconds()) + 1
			most, last = max(most, level), now
			counts[i]++
		})
	}
	begin(0, 270)
	begin(1, 30)
	defer func() { close(stop[1]) }()
	admitted := func() [2]int {
		mu.Lock()
		defer mu.Unlock()
		return counts
	}
	// wants waits until the Envoys admit at least so many of the requests in two seconds.
	wants := func(what string, first, second int) {
		t.Helper()
		testenv.Eventually(t, func() error {
			before := admitted()
			<-time.NewTimer(2 * time.Second).C
			after := admitted()
			if got := [2]int{after[0] - before[0], after[1] - before[1]}; got[0] < first || got[1] < second {
				return fmt.Errorf("%s: %v were admitted in two seconds, want %d and %d", what, got, first, second)
			}
			return nil
		})
	}
	wants("both", 90, 40)
	servers[0].kill()
	wants("a server is killed", 0, 40)
	close(stop[0])
	envoys[0].kill()
	close(stop[1])
	begin(1, 200)
	wants("the other Envoy is killed", 0, 160)
	drained, other := servers[1], servers[2]
	if drained.metric("weir_quota_streams", "") == 0 {
		drained, other = other, drained
	}
	drained.signal(syscall.SIGTERM)
	wants("its server is drained", 0, 160)
	drained.wantExit(0)
	other.waitForMetric("weir_quota_streams 1")
	mu.Lock()
	defer mu.Unlock()
	if most > limit+slack {
		t.Errorf("%.0f of the limit were used at once, at most %.0f may be", most, limit+slack)
	}
}
