package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/procfs"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/testenv"
)

const mib = 1 << 20

// mostMemory returns the peak memory use of the program since its start.
func (w *weir) mostMemory() uint64 {
	w.t.Helper()
	p := testenv.Must(procfs.NewProc(w.cmd.Process.Pid))(w.t)
	status := testenv.Must(p.NewStatus())(w.t)
	return status.VmHWM - status.RssFile // the system can drop pages of the program's file
}

// tooLate is five times the default timeout of Envoy's filter. Slower answers count as late.
const tooLate = 100 * time.Millisecond

// lateDuring sends 400 requests a second to each of two servers during an attack on the
// first. It returns the share of late or failed answers from the first, and as an allowance for a
// busy machine twice the share from the other.
func lateDuring(t *testing.T, attacked, undisturbed *weir, attack func()) (late, others float64) {
	t.Helper()
	var asked, lates [2]atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var neighbours sync.WaitGroup
	for i, w := range []*weir{attacked, undisturbed} {
		client := dial(t, w.grpc)
		wantAnswer(t, client) // connects
		for range 4 {
			neighbours.Go(func() {
				for tick := time.Tick(10 * time.Millisecond); ctx.Err() == nil; <-tick {
					began := time.Now()
					_, err := decide(client, request(descriptor("user", "alice")))
					asked[i].Add(1)
					if err != nil || time.Since(began) > tooLate {
						lates[i].Add(1)
					}
				}
			})
		}
	}
	attack()
	stop()
	neighbours.Wait()
	share := func(i int) float64 { return float64(lates[i].Load()) / float64(asked[i].Load()) }
	t.Logf("%.2f %% of %d answers to a neighbour come too late, and %.2f %% where nobody attacks", 100*share(0), asked[0].Load(), 100*share(1))
	return share(0), 2 * share(1)
}

// wantInTime attempts an attack until the share of late answers is within its bound, because
// other programs may be using the processors.
func wantInTime(t *testing.T, attempts int, attempt func() (late, bound float64)) {
	t.Helper()
	late, bound := 1.0, 0.0
	for try := 0; late > bound && try < attempts; try++ {
		late, bound = attempt()
	}
	if late > bound {
		t.Errorf("%.1f %% of the answers to a neighbour come too late, want at most %.1f %%", 100*late, 100*bound)
	}
}

// wantAnswer sends one request of a neighbour, a client that is not attacking.
func wantAnswer(t *testing.T, client service.RateLimitServiceClient) {
	t.Helper()
	testenv.Must(decide(client, request(descriptor("user", "alice"))))(t)
}

// large is a header that takes one byte when it is repeated, because HPACK keeps it in a table.
var large = hpack.HeaderField{Name: "attack-bin", Value: strings.Repeat("A", 3600)}

// anAttack describes an attack that each of several connections makes.
type anAttack struct {
	name        string
	connections int
	settings    []http2.Setting
	make        func(a *attacker) // writes the frames to send
	stays       bool              // the attackers stay connected
	late        float64           // tolerated share of late answers to a neighbour, if more than 0.04
}

var attacks = []anAttack{
	{name: "headers that unpack to more", connections: 1, make: func(a *attacker) {
		a.open(rateLimitMethod, large)
		for range 50 {
			a.open(rateLimitMethod, slices.Repeat([]hpack.HeaderField{large}, 4000)...)
		}
	}},
	{name: "100,000 requests without bodies on one connection", connections: 1, make: repeated(100_000, opens)},
	{name: "1,000 on each of 100", connections: 100, make: repeated(1000, opens), late: 0.5}, // the attack lasts a second or two
	{name: "100 half-sent requests on each of 200", connections: 200, make: repeated(100, halves), stays: true},
	{name: "a half-sent request on each of 600", connections: 600, make: halves},
	{name: "followed health checks", connections: 25, make: repeated(4000, floods("/grpc.health.v1.Health/Watch", make([]byte, 5)))},
	{name: "answers that nobody reads", connections: 25, settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, make: repeated(4000, floods(rateLimitMethod, oneDescriptor))},
	{name: "requests that are given up", connections: 25, make: repeated(4000, func(a *attacker) {
		a.open(rateLimitMethod)
		_ = a.framer.WriteRSTStream(a.stream, http2.ErrCodeCancel)
	})},
	{name: "settings", connections: 25, make: func(a *attacker) {
		repeated(200, opens)(a)
		for range 20_000 {
			_ = a.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(a.out.Len())})
		}
	}},
}

// oneDescriptor is a message with one descriptor, without entries.
var oneDescriptor = []byte{0, 0, 0, 0, 7, 0x0a, 3, 'a', 'p', 'i', 0x12, 0}

// repeated returns a function that writes the frames n times.
func repeated(n int, frames func(*attacker)) func(*attacker) {
	return func(a *attacker) {
		for range n {
			frames(a)
		}
	}
}

// opens opens a request and sends no message.
func opens(a *attacker) { a.open(rateLimitMethod) }

// halves opens a request and sends half of its message of 1 KiB.
func halves(a *attacker) {
	a.open(rateLimitMethod)
	_ = a.framer.WriteData(a.stream, false, append([]byte{0, 0, 0, 4, 0}, make([]byte, 512)...))
}

// floods sends a request with large headers.
func floods(method string, message []byte) func(*attacker) {
	return sends(method, message, large, large, large)
}

// sends makes a request with headers.
func sends(method string, message []byte, headers ...hpack.HeaderField) func(*attacker) {
	return func(a *attacker) {
		a.open(method, headers...)
		_ = a.framer.WriteData(a.stream, true, message)
	}
}

// TestAttacksOnGRPC attacks servers. The memory that an attack takes is bounded, neighbours
// are served during it, and afterwards its goroutines end.
func TestAttacksOnGRPC(t *testing.T) {
	control := startWeir(t, writeRules(t, userRules(1_000_000)))
	for _, tt := range attacks {
		t.Run(tt.name, func(t *testing.T) {
			wantInTime(t, 3, func() (late, bound float64) { return tt.run(t, control) })
		})
	}
}

// run attacks a server while the server control is left alone. It returns the share of late
// answers to a neighbour, and the bound of that share. The bound grows with the late answers
// of control, because the load of the machine varies from second to second.
func (tt anAttack) run(t *testing.T, control *weir) (late, bound float64) {
	w := startWeir(t, writeRules(t, userRules(1_000_000)))
	before := w.metric("go_goroutines", "")
	var attackers []*attacker
	late, others := lateDuring(t, w, control, func() {
		attackers = tt.strike(t, w.grpc)
	})
	if used := w.mostMemory(); used > 500*mib {
		t.Errorf("the attack took %d MiB of memory, want at most 500", used/mib)
	}

	const goroutines = 3 // for each connection
	most := before + 100
	for _, a := range attackers {
		if !tt.stays {
			a.conn.Close()
		}
	}
	if tt.stays {
		most += float64(goroutines * len(attackers)) // the goroutines of connections stay, those of calls end
	}
	testenv.Until(t, "the goroutines of the attack have ended", func() bool { return w.metric("go_goroutines", "") <= most })
	wantAnswer(t, dial(t, w.grpc))
	return late, max(tt.late, 0.04) + others
}

// strike makes the attack on all connections at once, and returns the attackers.
func (tt anAttack) strike(t *testing.T, addr string) (attackers []*attacker) {
	var strikes sync.WaitGroup
	for range tt.connections {
		a := attack(t, addr, tt.settings...)
		tt.make(a)
		attackers = append(attackers, a)
		strikes.Go(a.strike)
	}
	strikes.Wait()
	return attackers
}

// startWithin starts Weir with a memory limit in bytes: the limit of a control group if the test can
// make one, otherwise a slightly lower GOMEMLIMIT.
func startWithin(t *testing.T, memory int, rules string) *weir {
	t.Helper()
	for parent, limit := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		group, err := os.MkdirTemp(parent, "weir-e2e-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(group) })
		if file, err := os.OpenFile(filepath.Join(group, limit), os.O_WRONLY, 0); err == nil { // the kernel has made the file
			_, err = file.WriteString(strconv.Itoa(memory))
			testenv.OK(t, errors.Join(err, file.Close()))
			w := runWeir(t, []string{"CONFIG_PATH=" + rules}, "/bin/sh", "-c", `echo $$ >"$1/cgroup.procs" && exec "$0"`, program(t), group)
			w.waitUntilHealthy()
			return w
		}
	}
	t.Log("no control group can be made")
	return startWeir(t, rules, fmt.Sprintf("GOMEMLIMIT=%d", memory*17/20))
}

// keepOpen opens connections to an address, sends a text over each, and keeps them open. A dialer
// stops when the server's queue is full.
func keepOpen(t *testing.T, addr string, connections int, text string) (closeAll func()) {
	const dialers = 64
	var mu sync.Mutex
	var conns []net.Conn
	closeAll = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			conn.Close()
		}
	}
	t.Cleanup(closeAll)
	var dialing sync.WaitGroup
	for range dialers {
		dialing.Go(func() {
			for range connections / dialers {
				conn, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, text)
				mu.Lock()
				conns = append(conns, conn)
				mu.Unlock()
			}
		})
	}
	dialing.Wait()
	return closeAll
}

// TestAttacksTogether makes all attacks that take memory or connections at once, on a server with the
// memory of the chart's container. The server must survive, answer a neighbour and probes, and recover
// soon. On a machine that is not too busy, the p99 of answers to a neighbour is at most tooLate.
func TestAttacksTogether(t *testing.T) {
	control := startWeir(t, writeRules(t, userRules(1_000_000)))
	wantInTime(t, 5, func() (late, bound float64) {
		return attackTogether(t, startWithin(t, inChart, writeRules(t, userRules(1_000_000))), control)
	})
}

// inChart is the memory of the chart's container.
const inChart = 256 * mib

// attackTogether makes one attempt. It returns the share of late answers and its bound.
func attackTogether(t *testing.T, w, control *weir) (late, bound float64) {
	var closes []func()
	late, others := lateDuring(t, w, control, func() {
		for _, tt := range []anAttack{
			{connections: 5, make: repeated(200, mostOfMiB)},
			{connections: 300, make: repeated(200, opens)},
			{connections: 300, make: repeated(200, sends("/grpc.health.v1.Health/Watch", make([]byte, 5)))},
			{connections: 100, make: repeated(200, sends(rateLimitMethod, oneDescriptor)), settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}},
		} {
			for _, a := range tt.strike(t, w.grpc) {
				closes = append(closes, func() { a.conn.Close() })
			}
		}
		closes = append(closes,
			keepOpen(t, w.http, 4300, "GET /healthcheck HTTP/1.1\r\nHost: weir\r\n\r\n"),
			keepOpen(t, w.http, 4300, "GET /healthcheck HTTP/1.1\r\nHost: "),
			keepOpen(t, w.grpc, 10_000, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		wantPage(t, "127.0.0.3", "http://"+w.http+"/healthcheck", "OK")
	})
	testenv.OK(t, w.ended())
	most := w.mostMemory()
	t.Logf("the attack took %d MiB of memory", most/mib)
	if most > inChart {
		t.Errorf("want at most %d MiB", inChart/mib)
	}
	for _, closeAll := range closes {
		closeAll()
	}
	began := time.Now()
	wantPage(t, "127.0.0.3", "http://"+w.http+"/healthcheck", "OK")
	wantAnswer(t, dial(t, w.grpc))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it is well again after %v, want at most 10 s", took)
	}
	testenv.Until(t, "memory is given back", func() bool {
		p := testenv.Must(procfs.NewProc(w.cmd.Process.Pid))(t)
		return testenv.Must(p.NewStatus())(t).VmRSS < inChart*5/8
	})
	return late, 0.01 + others
}

// mostOfMiB opens a request and sends its message of almost a MiB except for the end.
func mostOfMiB(a *attacker) {
	a.open(rateLimitMethod)
	data := append([]byte{0, 0, 0x10, 0, 0}, make([]byte, mib-1024)...)
	for chunk := range slices.Chunk(data, 16<<10) {
		_ = a.framer.WriteData(a.stream, false, chunk)
	}
}

// TestLargeRequests sends many large requests at a time on one connection. One of them has
// almost the maximum size.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	client := dial(t, startWeir(t, writeRules(t, userRules(1_000_000))).grpc)
	var callers sync.WaitGroup
	for i := range 600 {
		size := 30_000
		if i == 0 {
			size = mib - 100
		}
		callers.Go(func() {
			for range 4 {
				if _, err := decide(client, request(descriptor("user", strings.Repeat("x", size)))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// readSlowly requests a page and reads a few bytes a second. When the server closes the
// connection, it starts again, until ctx ends.
func readSlowly(ctx context.Context, addr, path string) {
	for ; ctx.Err() == nil; testenv.Pass(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			continue
		}
		hangUp := context.AfterFunc(ctx, func() { conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: weir\r\n\r\n", path)
		for one := make([]byte, 1); err == nil; testenv.Pass(200 * time.Millisecond) {
			_, err = conn.Read(one)
		}
		hangUp()
		conn.Close()
	}
}

// clientAt returns a client that connects from ip, because Prometheus and the kubelet have
// addresses of their own.
func clientAt(ip string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// wantPage gets a page from the address ip. The page must contain part.
func wantPage(t *testing.T, ip, url, part string) {
	t.Helper()
	a, err := exchange(clientAt(ip), http.MethodGet, url, "")
	if err != nil || a.status != http.StatusOK || !strings.Contains(a.body, part) {
		t.Errorf("%s: status %d, %d bytes, want %q (error: %v)", url, a.status, len(a.body), part, err)
	}
}

// TestSlowReadersOfPages lets 300 clients read /rlconfig, and 90 others read other pages, as
// slowly as they can. They must not use up the memory, delay decisions, or keep out
// Prometheus and probes.
func TestSlowReadersOfPages(t *testing.T) {
	const users, atOnce, grows = 20_000, 100, 150 * mib
	var rules strings.Builder
	rules.WriteString("domain: api\ndescriptors:\n")
	for i := range users {
		fmt.Fprintf(&rules, "  - {key: user, value: user-%d, rate_limit: {unit: year, requests_per_unit: 1000000}}\n", i)
	}
	w := startWeir(t, writeRules(t, rules.String()))
	client := dial(t, w.grpc)
	for i := 0; i < users; i += atOnce { // so that every limit has metrics
		all := request()
		for j := range atOnce {
			all.Descriptors = append(all.Descriptors, descriptor("user", fmt.Sprintf("user-%d", i+j)))
		}
		testenv.Must(decide(client, all))(t)
	}
	wantPage(t, "127.0.0.2", "http://"+w.metrics+"/metrics", `key2="`) // as Prometheus did before the attack
	before := w.mostMemory()

	control := startWeir(t, writeRules(t, userRules(1_000_000)))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers sync.WaitGroup
	pages := func() {
		wantPage(t, "127.0.0.3", "http://"+w.http+"/healthcheck", "OK")
		wantPage(t, "127.0.0.2", "http://"+w.metrics+"/metrics", "ratelimit_service_rate_limit_total_hits")
		wantPage(t, "127.0.0.4", "http://"+w.debug+"/rlconfig", fmt.Sprintf("api.user_user-%d: unit=YEAR", users-1))
	}
	late, others := lateDuring(t, w, control, func() {
		for url, connections := range map[string]int{w.debug + "/rlconfig": 300, w.metrics + "/metrics": 60, w.debug + "/stats": 30} {
			addr, page, _ := strings.Cut(url, "/")
			for range connections {
				readers.Go(func() { readSlowly(ctx, addr, "/"+page) })
			}
		}
		for range 2 {
			testenv.Pass(time.Second) // while the attack continues
			pages()
		}
	})
	wantInTime(t, 1, func() (float64, float64) { return late, 0.04 + others })
	if most := w.mostMemory(); most > before+grows {
		t.Errorf("memory grew from %d to %d MiB, want at most %d MiB more", before/mib, most/mib, grows/mib)
	}
	stop()
	readers.Wait()
	pages()
}

// TestMoreConnectionsThanFileDescriptors opens more gRPC connections than the program may
// have open files. It must answer existing connections, and all other ports.
func TestMoreConnectionsThanFileDescriptors(t *testing.T) {
	t.Parallel()
	w := runWeir(t, []string{"CONFIG_PATH=" + writeRules(t, userRules(10))}, "/bin/sh", "-c", `ulimit -n 300 && exec "$0"`, program(t))
	w.waitUntilHealthy()
	connected := dial(t, w.grpc)
	wantAnswer(t, connected)
	for range 400 {
		connect(t, w.grpc)
	}
	wantAnswer(t, connected)
	for _, url := range []string{"http://" + w.http + "/healthcheck", "http://" + w.metrics + "/metrics", "http://" + w.debug + "/"} {
		wantPage(t, "127.0.0.2", url, "")
	}
}

// TestConnectionThatSaysNothing connects to gRPC and sends nothing.
func TestConnectionThatSaysNothing(t *testing.T) {
	t.Parallel()
	conn := connect(t, startWeir(t, writeRules(t, userRules(1))).grpc)
	testenv.Must(io.Copy(io.Discard, conn))(t) // fails unless the server closes it
}

// rateLimitMethod is the path of the call that Envoy makes.
const rateLimitMethod = service.RateLimitService_ShouldRateLimit_FullMethodName

// attacker is a client that writes single HTTP/2 frames. Unlike a library, it can leave
// requests unfinished.
type attacker struct {
	conn   net.Conn
	out    bytes.Buffer // frames that are not sent yet; writes to it never fail
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32 // ID of the last stream that was opened

	heard chan struct{} // the server has answered a ping
	gone  chan struct{} // closed when the server has disconnected
}

// attack connects to a gRPC server. It reads and discards the frames of the server.
func attack(t *testing.T, addr string, settings ...http2.Setting) *attacker {
	t.Helper()
	conn := connect(t, addr)
	a := &attacker{conn: conn, stream: 1, heard: make(chan struct{}, 1), gone: make(chan struct{})}
	a.framer = http2.NewFramer(&a.out, conn)
	a.hpack = hpack.NewEncoder(&a.block)
	a.out.WriteString(http2.ClientPreface)
	_ = a.framer.WriteSettings(settings...)
	go func() {
		defer close(a.gone)
		for {
			frame, err := a.framer.ReadFrame()
			if err != nil && !errors.As(err, new(http2.StreamError)) {
				return
			}
			if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
				a.heard <- struct{}{}
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-a.gone
	})
	return a
}

// open writes the headers of a request to method and leaves the request open.
func (a *attacker) open(method string, more ...hpack.HeaderField) {
	a.block.Reset()
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "weir"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}
	for _, f := range append(fields, more...) {
		_ = a.hpack.WriteField(f)
	}
	a.stream += 2
	_ = a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.block.Bytes(), EndHeaders: true})
}

// strike sends the frames and waits until the server has read them. It gives up after a
// while, because the server may disconnect or let an attacker wait.
func (a *attacker) strike() {
	const while = 3 * time.Second
	_ = a.framer.WritePing(false, [8]byte{})
	_ = a.conn.SetWriteDeadline(time.Now().Add(while)) // fails if the server has disconnected
	if _, err := a.conn.Write(a.out.Bytes()); err != nil {
		return
	}
	select {
	case <-a.heard:
	case <-a.gone:
	case <-time.After(while):
	}
}
