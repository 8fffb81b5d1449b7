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
	p := testenv.Must(procfs.NewProc(w.cmd.Process.Pid))(w.t)
	status := testenv.Must(p.NewStatus())(w.t)
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
	conn := testenv.Must(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
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

// large is a header that takes one byte when it comes again: HPACK keeps it in a table.
var large = hpack.HeaderField{Name: "attack-bin", Value: strings.Repeat("A", 3600)}

// anAttack is what each of some connections does.
type anAttack struct {
	name        string
	connections int
	settings    []http2.Setting
	make        func(a *attacker) error // writes the frames to send
	stays       bool                    // the attackers do not leave
	late        float64                 // share of a neighbour's answers that may come too late, 0: a few
}

var attacks = []anAttack{
	{name: "headers that unpack to more", connections: 1, make: func(a *attacker) error {
		err := a.open(rateLimitMethod, large)
		for range 50 {
			err = errors.Join(err, a.open(rateLimitMethod, slices.Repeat([]hpack.HeaderField{large}, 4000)...))
		}
		return err
	}},
	{name: "100,000 requests without bodies on one connection", connections: 1, make: opens(100_000)},
	{name: "1,000 on each of 100", connections: 100, make: opens(1000), late: 0.5}, // for the second or two that the attack lasts
	{name: "100 half-sent requests on each of 200", connections: 200, make: halves(100), stays: true},
	{name: "a half-sent request on each of 600", connections: 600, make: halves(1)},
	{name: "followed health checks", connections: 25, make: floods("/grpc.health.v1.Health/Watch", make([]byte, 5))},
	{name: "answers that nobody reads", connections: 25, settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, make: floods(rateLimitMethod, oneDescriptor)},
	{name: "requests that are given up", connections: 25, make: func(a *attacker) (err error) {
		for range 4000 {
			err = errors.Join(err, a.open(rateLimitMethod), a.framer.WriteRSTStream(a.stream, http2.ErrCodeCancel))
		}
		return err
	}},
	{name: "settings", connections: 25, make: func(a *attacker) error {
		err := opens(200)(a)
		for i := range 20_000 {
			err = errors.Join(err, a.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}))
		}
		return err
	}},
}

// oneDescriptor is a message with one descriptor, without entries.
var oneDescriptor = []byte{0, 0, 0, 0, 7, 0x0a, 3, 'a', 'p', 'i', 0x12, 0}

// opens opens n requests and sends no message.
func opens(n int) func(*attacker) error {
	return func(a *attacker) (err error) {
		for range n {
			err = errors.Join(err, a.open(rateLimitMethod))
		}
		return err
	}
}

// halves opens n requests and sends half of a message of a KiB in each.
func halves(n int) func(*attacker) error {
	half := append([]byte{0, 0, 0, 4, 0}, make([]byte, 512)...)
	return func(a *attacker) (err error) {
		for range n {
			err = errors.Join(err, a.open(rateLimitMethod), a.send(half))
		}
		return err
	}
}

// floods makes 4000 whole requests with large headers.
func floods(method string, message []byte) func(*attacker) error {
	return func(a *attacker) (err error) {
		for range 4000 {
			err = errors.Join(err, a.open(method, large, large, large), a.framer.WriteData(a.stream, true, message))
		}
		return err
	}
}

// TestAttacksOnGRPC attacks servers. What an attack takes is bounded, neighbours are
// served meanwhile, and soon all is as it was.
func TestAttacksOnGRPC(t *testing.T) {
	control := startWeir(t, writeRules(t, attackedRules))
	for _, tt := range attacks {
		t.Run(tt.name, func(t *testing.T) {
			const tries = 3 // other programs may want the processors
			for try := 1; ; try++ {
				late, bound := tt.run(t, control)
				if late <= bound {
					return
				}
				if try == tries {
					t.Fatalf("%.1f %% of the answers to a neighbour come too late, want at most %.1f %%", 100*late, 100*bound)
				}
			}
		})
	}
}

// run attacks a server beside one that nobody attacks. It returns the share of answers to
// a neighbour that come too late, and the bound of that share: what other programs of the
// machine do differs from one second to the next.
func (tt anAttack) run(t *testing.T, control *weir) (late, bound float64) {
	w := startWeir(t, writeRules(t, attackedRules))
	before := w.metric("go_goroutines")
	undisturbed, neighbour := startNeighbour(t, control.grpc, 4), startNeighbour(t, w.grpc, 4)
	var attackers []*attacker
	var strikes sync.WaitGroup
	for range tt.connections {
		a := attack(t, w.grpc, tt.settings...)
		testenv.OK(t, tt.make(a))
		attackers = append(attackers, a)
		strikes.Go(a.strike)
	}
	strikes.Wait()
	late, bound = neighbour.late(), max(tt.late, 0.04)+2*undisturbed.late()
	w.wantMemory(500 * mib)

	const goroutines = 3 // of a connection
	most, crowd := before+100, 0.0
	for _, a := range attackers {
		if tt.stays {
			most += goroutines
			crowd = 5000 // goroutines, from which on calls have a deadline
		} else {
			a.conn.Close()
		}
	}
	testenv.Eventually(t, func() error {
		if n := w.metric("go_goroutines"); n > most+crowd {
			return fmt.Errorf("%v goroutines, want at most %v", n, most+crowd)
		}
		return nil
	})
	startNeighbour(t, w.grpc, 0) // which asks once
	return late, bound
}

// TestLargeRequestsOfOne sends many large requests at a time on one connection.
func TestLargeRequestsOfOne(t *testing.T) {
	w := startWeir(t, writeRules(t, attackedRules))
	conn := testenv.Must(grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
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
			testenv.OK(t, a.open(rateLimitMethod))
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
	a := testenv.Must(fetch("http://" + w.metrics + "/metrics"))(w.t)
	var sum float64
	for _, line := range regexp.MustCompile(`(?m)^`+name+`(?:{.*})? (\S+)$`).FindAllStringSubmatch(a.body, -1) {
		value := testenv.Must(strconv.ParseFloat(line[1], 64))(w.t)
		sum += value
	}
	return sum
}
