package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/procfs"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/testenv"
)

const mib = 1 << 20

// attackedRules admit all that ask during an attack.
const attackedRules = `
domain: api
descriptors:
- {key: user, rate_limit: {unit: second, requests_per_unit: 1000000}}
`

// mostMemory is the most memory that the program has used since it started.
func (w *weir) mostMemory() uint64 {
	w.t.Helper()
	p, err := procfs.NewProc(w.cmd.Process.Pid)
	if err != nil {
		w.t.Fatal(err)
	}
	status, err := p.NewStatus()
	if err != nil {
		w.t.Fatal(err)
	}
	return status.VmHWM
}

// wantMemory fails the test if the program has used more than bound at any time.
func (w *weir) wantMemory(bound uint64) {
	w.t.Helper()
	used := w.mostMemory()
	w.t.Logf("%d MiB at most", used/mib)
	if used > bound {
		w.t.Errorf("the attack took %d MiB of memory, want at most %d MiB", used/mib, bound/mib)
	}
}

// TestHeadersThatUnpackToMore repeats one large header that the server keeps in
// its HPACK table, in one byte each.
func TestHeadersThatUnpackToMore(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	a := attack(t, w.grpc)
	large := hpack.HeaderField{Name: "attack-bin", Value: strings.Repeat("A", 3600)}
	if err := a.open(rateLimitMethod, large); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := a.open(rateLimitMethod, slices.Repeat([]hpack.HeaderField{large}, 4000)...); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d KiB are sent", a.out.Len()>>10)
	a.strike()
	w.wantMemory(100 * mib)
}

// wantGoroutines fails the test if the program has more goroutines than bound.
func (w *weir) wantGoroutines(bound int) {
	w.t.Helper()
	got := int(w.metric("go_goroutines"))
	w.t.Logf("%d goroutines", got)
	if got > bound {
		w.t.Errorf("the attack left %d goroutines, want at most %d", got, bound)
	}
}

// neighbour asks a hundred times a second with each of its callers until it is told to stop.
type neighbour struct {
	t     *testing.T
	conn  *grpc.ClientConn
	stop  chan struct{}
	ended sync.WaitGroup
	mu    sync.Mutex
	took  []time.Duration // of each request
}

func startNeighbour(t *testing.T, addr string, callers int) *neighbour {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n := &neighbour{t: t, conn: conn, stop: make(chan struct{})}
	n.ask() // connects
	for range callers {
		n.ended.Go(n.run)
	}
	return n
}

func (n *neighbour) run() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
			began := time.Now()
			n.ask()
			n.mu.Lock()
			n.took = append(n.took, time.Since(began))
			n.mu.Unlock()
		}
	}
}

func (n *neighbour) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := ratelimitv3.NewRateLimitServiceClient(n.conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain:      "api",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: "alice"}}}},
	})
	if err != nil {
		n.t.Errorf("a request of a neighbour fails: %v", err)
	}
}

// tooLate is when an Envoy of the usual settings does not wait any more, five times.
const tooLate = 100 * time.Millisecond

// late ends the neighbour and returns the share of its answers that came too late.
func (n *neighbour) late() float64 {
	close(n.stop)
	n.ended.Wait()
	slices.Sort(n.took)
	of := len(n.took)
	timely, _ := slices.BinarySearch(n.took, tooLate)
	late := float64(of-timely) / float64(of)
	n.t.Logf("neighbour: %d requests, median %v, p99 %v, longest %v, %.2f %% too late", of, n.took[of/2], n.took[of*99/100], n.took[of-1], 100*late)
	return late
}

// wantTimely attacks, and fails the test if a neighbour with so many callers gets an
// error, or answers too late much more often than a server that nobody attacks. That
// one runs at the same time, because what other programs of the machine do differs
// from one second to the next.
func (w *weir) wantTimely(callers int, attack func()) {
	w.t.Helper()
	control := startWeir(w.t, writeRules(w.t, attackedRules))
	undisturbed := startNeighbour(w.t, control.grpc, callers)
	n := startNeighbour(w.t, w.grpc, callers)
	attack()
	late := n.late()
	if bound := 0.04 + 2*undisturbed.late(); late > bound {
		w.t.Errorf("%.1f %% of the answers to a neighbour come too late, want at most %.1f %%", 100*late, 100*bound)
	}
}

// TestRequestsWithoutBodies opens a hundred thousand requests on one connection.
func TestRequestsWithoutBodies(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	a := attack(t, w.grpc)
	for range 100_000 {
		if err := a.open(rateLimitMethod); err != nil {
			t.Fatal(err)
		}
	}
	a.strike()
	w.wantMemory(100 * mib)
	w.wantGoroutines(3000)
}

// TestRequestsWithoutBodiesOfMany opens as many, on two hundred connections.
func TestRequestsWithoutBodiesOfMany(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	var attackers sync.WaitGroup
	for range 200 {
		a := attack(t, w.grpc)
		for range 500 {
			if err := a.open(rateLimitMethod); err != nil {
				t.Fatal(err)
			}
		}
		attackers.Go(a.strike)
	}
	attackers.Wait()
	w.wantMemory(400 * mib) // 130 to 180 on an idle machine; on a busy one the collector has its turn later
	testenv.Eventually(t, func() error {
		if n := w.metric("go_goroutines"); n > 4000 {
			return fmt.Errorf("%v goroutines, want at most 4000", n)
		}
		return nil
	})
}

// TestHalfSentRequests leaves a hundred requests unfinished on each of two
// hundred connections.
func TestHalfSentRequests(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	half := append([]byte{0, 0, 0, 4, 0}, make([]byte, 512)...) // of a message of a KiB
	w.wantTimely(1, func() {
		var attackers sync.WaitGroup
		for range 200 {
			a := attack(t, w.grpc)
			for range 100 {
				if err := errors.Join(a.open(rateLimitMethod), a.send(half)); err != nil {
					t.Fatal(err)
				}
			}
			attackers.Go(a.strike)
		}
		attackers.Wait()
	})
	w.wantMemory(120 * mib)
	w.wantGoroutines(4000) // of which each connection has three
	if w.metric("weir_grpc_unfinished_requests_total") == 0 {
		t.Error("no request was ended")
	}
}

// TestHalfSentRequestsOfMany leaves one request unfinished on each of six hundred
// connections. That is no crowd: none ends before its patience is over.
func TestHalfSentRequestsOfMany(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	w.wantTimely(50, func() {
		for range 600 {
			a := attack(t, w.grpc)
			if err := errors.Join(a.open(rateLimitMethod), a.send([]byte{0, 0, 0, 4, 0, 1, 2}), a.flush()); err != nil {
				t.Fatal(err)
			}
		}
		testenv.Pass(4 * time.Second)
	})
	if n := w.metric("weir_grpc_unfinished_requests_total"); n != 0 {
		t.Errorf("%v requests were ended, want none", n)
	}
}

// flood opens whole requests with large headers on 25 connections, 4000 on each.
func (w *weir) flood(method string, message []byte, settings ...http2.Setting) {
	large := hpack.HeaderField{Name: "attack-bin", Value: strings.Repeat("A", 3600)}
	var attackers sync.WaitGroup
	for range 25 {
		a := attack(w.t, w.grpc, settings...)
		for range 4000 {
			if err := errors.Join(a.open(method, large, large, large), a.framer.WriteData(a.stream, true, message)); err != nil {
				w.t.Fatal(err)
			}
		}
		attackers.Go(a.strike)
	}
	attackers.Wait()
}

// TestFollowedHealthChecks follows the health a hundred thousand times.
func TestFollowedHealthChecks(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	w.wantTimely(1, func() { w.flood("/grpc.health.v1.Health/Watch", make([]byte, 5)) })
	w.wantMemory(150 * mib)
	testenv.Eventually(t, func() error {
		if n := w.metric("go_goroutines"); n > 1000 {
			return fmt.Errorf("%v goroutines, want at most 1000", n)
		}
		return nil
	})
}

// TestAnswersThatNobodyReads asks a hundred thousand times with a window of 0 for the answers.
func TestAnswersThatNobodyReads(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	message := []byte{0, 0, 0, 0, 7, 0x0a, 3, 'a', 'p', 'i', 0x12, 0} // one descriptor, without entries
	w.wantTimely(1, func() {
		w.flood(rateLimitMethod, message, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	})
	w.wantMemory(150 * mib)
	testenv.Eventually(t, func() error {
		if n := w.metric("go_goroutines"); n > 200 {
			return fmt.Errorf("%v goroutines, want at most 200", n)
		}
		return nil
	})
}

// TestLargeRequestsOfOne sends many large requests at a time on one connection.
func TestLargeRequestsOfOne(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var callers sync.WaitGroup
	for range 600 {
		callers.Go(func() {
			for range 4 {
				_, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
					Domain:      "api",
					Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: strings.Repeat("x", 30_000)}}}},
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// slowly is a connection that sends a MiB in two seconds.
type slowly struct{ net.Conn }

func (s slowly) Write(p []byte) (n int, err error) {
	for piece := range slices.Chunk(p, 16<<10) {
		testenv.Pass(32 * time.Millisecond)
		m, err := s.Conn.Write(piece)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// TestLargeRequestComesSlowly sends almost the largest message that is permitted
// while others leave theirs unfinished.
func TestLargeRequestComesSlowly(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			return slowly{conn}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var attackers sync.WaitGroup
	defer attackers.Wait()
	for range 10 {
		a := attack(t, w.grpc)
		for range 100 {
			if err := a.open(rateLimitMethod); err != nil {
				t.Fatal(err)
			}
		}
		attackers.Go(a.strike)
	}
	_, err = ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
		Domain:      "api",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: strings.Repeat("x", mib-100)}}}},
	})
	if err != nil {
		t.Error(err)
	}
}

// metric reads the sum of a metric's series.
func (w *weir) metric(name string) float64 {
	w.t.Helper()
	a, err := fetch("http://" + w.metrics + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	var sum float64
	for _, line := range regexp.MustCompile(`(?m)^`+name+`(?:{.*})? (\S+)$`).FindAllStringSubmatch(a.body, -1) {
		value, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			w.t.Fatal(err)
		}
		sum += value
	}
	return sum
}
