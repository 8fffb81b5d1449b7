package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

// manyUsers are rules with a limit for each of so many users.
func manyUsers(n int) string {
	var rules strings.Builder
	rules.WriteString("domain: api\ndescriptors:\n")
	for i := range n {
		fmt.Fprintf(&rules, "  - key: user\n    value: user-%d\n    rate_limit: {unit: year, requests_per_unit: 1000000}\n", i)
	}
	return rules.String()
}

// countAll makes every limit of manyUsers count, so that it has its metrics.
func (w *weir) countAll(n int) {
	w.t.Helper()
	const atOnce = 100 // descriptors
	client := dial(w.t, w.grpc)
	for i := 0; i < n; i += atOnce {
		request := &service.RateLimitRequest{Domain: "api"}
		for j := i; j < min(i+atOnce, n); j++ {
			request.Descriptors = append(request.Descriptors, descriptor("user", fmt.Sprintf("user-%d", j)))
		}
		testenv.Must(client.ShouldRateLimit(w.t.Context(), request))(w.t)
	}
}

// readSlowly asks for a page on so many connections and reads next to nothing,
// again and again where the server closes one, until the test ends or stop is called.
func readSlowly(t *testing.T, addr, path string, connections int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range connections {
		readers.Go(func() {
			for ctx.Err() == nil {
				readOnceSlowly(ctx, addr, path)
				testenv.Pass(10 * time.Millisecond)
			}
		})
	}
	stop = func() { cancel(); readers.Wait() }
	t.Cleanup(stop)
	return stop
}

func readOnceSlowly(ctx context.Context, addr, path string) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: weir\r\n\r\n", path)
	one := make([]byte, 1)
	for {
		if _, err := conn.Read(one); err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// clientAt is a client with an address of its own, as Prometheus and the kubelet
// have.
func clientAt(ip string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// wantPage gets a page whole.
func wantPage(t *testing.T, client *http.Client, url, part string) {
	t.Helper()
	began := time.Now()
	response, err := client.Get(url)
	if err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), part) {
		t.Errorf("%s: status %d, %d bytes, want %q (error: %v)", url, response.StatusCode, len(body), part, err)
	}
	t.Logf("%s took %v", url, time.Since(began).Round(time.Millisecond))
}

// TestSlowReadersOfPages lets 300 clients read /rlconfig, and 90 others, as slowly as they
// can. They may not take the memory or the processors from decisions, nor the place from
// Prometheus and probes.
func TestSlowReadersOfPages(t *testing.T) {
	const users, grows = 20_000, 150 * mib
	w := startWeir(t, writeRules(t, manyUsers(users)))
	w.countAll(users)
	wantPage(t, clientAt("127.0.0.2"), "http://"+w.metrics+"/metrics", `key2="`) // as it always is done
	before := w.mostMemory()

	neighbour, undisturbed := startNeighbour(t, w.grpc, 4), startNeighbour(t, startWeir(t, writeRules(t, manyUsers(1))).grpc, 4)
	var stops []func()
	for _, page := range []struct {
		addr, path  string
		connections int
	}{{w.debug, "/rlconfig", 300}, {w.metrics, "/metrics", 60}, {w.debug, "/stats", 30}} {
		stops = append(stops, readSlowly(t, page.addr, page.path, page.connections))
	}
	pages := func() {
		wantPage(t, clientAt("127.0.0.3"), "http://"+w.http+"/healthcheck", "OK")
		wantPage(t, clientAt("127.0.0.2"), "http://"+w.metrics+"/metrics", "ratelimit_service_rate_limit_total_hits")
		wantPage(t, clientAt("127.0.0.4"), "http://"+w.debug+"/rlconfig", fmt.Sprintf("api.user_user-%d: unit=YEAR", users-1))
	}
	for range 2 {
		testenv.Pass(time.Second) // of an attack
		pages()
	}
	if late, bound := neighbour.late(), 0.04+2*undisturbed.late(); late > bound {
		t.Errorf("%.1f %% of the answers to a neighbour come too late, want at most %.1f %%", 100*late, 100*bound)
	}
	if most := w.mostMemory(); most > before+grows {
		t.Errorf("memory grew from %d to %d MiB, want at most %d MiB more", before/mib, most/mib, grows/mib)
	}
	for _, stop := range stops {
		stop()
	}
	pages()
}

// TestQueuedReloads asks for many reloads at once, each of which takes seconds, and
// then ends the server.
func TestQueuedReloads(t *testing.T) {
	const (
		users   = 50_000
		reloads = 40
		drain   = 5 * time.Second
		longest = drain + 10*time.Second // on a busy machine; one after the other takes minutes
	)
	w := startWeir(t, writeRules(t, manyUsers(users)), "DRAIN_DELAY=0s", "DRAIN_TIMEOUT="+drain.String())
	var asked atomic.Int32
	var asking sync.WaitGroup
	for range reloads {
		asking.Go(func() {
			asked.Add(1)
			response, err := http.Post("http://"+w.debug+"/-/reload", "", nil)
			if err == nil {
				response.Body.Close()
			}
		})
	}
	testenv.Eventually(t, func() error {
		if n := asked.Load(); n < reloads {
			return fmt.Errorf("%d asked", n)
		}
		return nil
	})
	testenv.Pass(500 * time.Millisecond) // a load has begun
	began := time.Now()
	w.wantEndWithin(longest)
	asking.Wait()
	t.Logf("the end took %v", time.Since(began))
}

// wantEndWithin sends SIGTERM, after which the program must end within so long.
func (p *process) wantEndWithin(longest time.Duration) {
	p.t.Helper()
	p.signal(15)
	select {
	case <-p.exited:
	case <-time.After(longest):
		p.t.Errorf("it still runs %v after SIGTERM", longest)
	}
}
