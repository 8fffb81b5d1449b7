package statsd

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) {
	lastFlush = time.Minute // for busy machines
	goleak.VerifyTestMain(m)
}

// sums is a source whose totals a test sets.
type sums struct{ list atomic.Pointer[[]Sum] }

func (s *sums) set(list ...Sum) { s.list.Store(&list) }

// all yields the sums, and reuses one buffer for all names, as sources may.
func (s *sums) all(yield func(Sum) bool) {
	var name []byte
	for _, sum := range *s.list.Load() {
		name = append(name[:0], sum.Name...)
		if !yield(Sum{name, sum.Total, sum.Took}) {
			return
		}
	}
}

func count(name string, total uint64) Sum { return Sum{Name: []byte(name), Total: total} }

// server is a statsd server that keeps the received lines.
type server struct {
	network, address string

	lines testenv.Log
	seen  int // number of lines that want has seen
}

func serveTCP(t *testing.T, address string) *server {
	t.Helper()
	listener := testenv.Must(net.Listen("tcp", address))(t)
	s := &server{network: "tcp", address: listener.Addr().String()}
	s.serve(t, listener, func() error {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = io.Copy(&s.lines, conn) // lines before an error count, too
		}
		return err
	})
	return s
}

func serveUDP(t *testing.T) *server {
	t.Helper()
	conn := testenv.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	s := &server{network: "udp", address: conn.LocalAddr().String()}
	buffer := make([]byte, 64<<10)
	s.serve(t, conn, func() error {
		n, _, err := conn.ReadFrom(buffer)
		if n > 1432 {
			t.Errorf("a datagram of %d bytes", n)
		}
		_, _ = s.lines.Write(buffer[:n])
		return err
	})
	return s
}

// serve calls the function one until it fails, as it does when the test ends.
func (s *server) serve(t *testing.T, from io.Closer, one func() error) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for one() == nil {
		}
	})
	t.Cleanup(func() {
		from.Close()
		serving.Wait()
	})
}

// want waits for these lines, in any order. Other lines are an error.
func (s *server) want(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	testenv.Becomes(t, "lines", strings.Join(want, "\n"), func() string {
		got := strings.Split(strings.TrimSuffix(s.lines.String(), "\n"), "\n")[s.seen:]
		slices.Sort(got)
		return strings.Join(got, "\n")
	})
	s.seen += len(want)
}

// start runs a client that sends to s.
func start(t *testing.T, s *server, source *sums, opts Options) (stop func()) {
	t.Helper()
	opts.Network, opts.Address, opts.Source, opts.Interval = s.network, s.address, source.all, 10*time.Millisecond
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	stop = testenv.Running(New(opts).Run)
	t.Cleanup(stop)
	return stop
}

// A sum that restarted is sent from 0, whether or not the source omitted it in between.
func TestOnlyGrowthIsSent(t *testing.T) {
	for _, s := range []*server{serveTCP(t, "127.0.0.1:0"), serveUDP(t)} {
		t.Run(s.network, func(t *testing.T) {
			var source sums
			source.set(count("a", 3), count("b", 0), count("c", 1<<60))
			stop := start(t, s, &source, Options{})
			s.want(t, "a:3|c", "c:1152921504606846976|c")
			source.set(count("a", 3), count("b", 2), count("c", 1<<60+1))
			s.want(t, "b:2|c", "c:1|c")
			source.set(count("a", 1), count("d", 1))
			s.want(t, "a:1|c", "d:1|c")
			source.set(count("a", 1), count("b", 9))
			s.want(t, "b:9|c")
			source.set(count("a", 10))
			stop() // sends the rest
			s.want(t, "a:9|c")
		})
	}
}

func TestTimings(t *testing.T) {
	s := serveTCP(t, "127.0.0.1:0")
	var source sums
	timing := func(total uint64, took time.Duration) Sum { return Sum{[]byte("t"), total, took} }
	source.set(timing(1, 250*time.Microsecond), timing(4, time.Second), timing(0, time.Minute))
	start(t, s, &source, Options{DogStatsD: true, Tags: []Tag{{"zone", "a"}}})
	s.want(t, "t:0.25|ms|#zone:a", "t:1000|ms|@0.25|#zone:a")
}

// A server that truncates 1/rate must not lose one of n events.
func TestRateCountsAll(t *testing.T) {
	for n := uint64(1); n < 100_000; n++ {
		if got := uint64(1 / rate(n)); got != n {
			t.Fatalf("%d things are told as %d", n, got)
		}
	}
}

func TestTags(t *testing.T) {
	const name = "ratelimit.service.rate_limit.mongo_cps.database_users.within_limit"
	rules := []Rule{
		{regexp.MustCompile(`^other\.(.*)$`), "x.$1", nil},
		{regexp.MustCompile(`^ratelimit\.service\.rate_limit\.(.*)\.(.*)\.(.*)$`), "ratelimit.service.rate_limit.$3",
			[]Tag{{"descriptor", "$2"}, {"domain", "$1"}, {"none", "$5"}}},
		{regexp.MustCompile(`within`), "never", nil},
	}
	extra := []Tag{{"COMMIT", "1.2:3"}, {"DEPLOY", "6,7"}}
	for _, tc := range []struct {
		opts Options
		want string
	}{
		{Options{}, name + ":1|c"},
		{Options{Tags: extra}, name + ".__COMMIT=1_2_3.__DEPLOY=6,7:1|c"},
		{Options{DogStatsD: true}, name + ":1|c"},
		{Options{DogStatsD: true, Tags: extra}, name + ":1|c|#COMMIT:1.2:3,DEPLOY:6_7"},
		{Options{DogStatsD: true, Rules: rules[:1]}, name + ":1|c"},
		{Options{DogStatsD: true, Tags: extra[:1], Rules: rules},
			"ratelimit.service.rate_limit.within_limit:1|c|#COMMIT:1.2:3,descriptor:database_users,domain:mongo_cps,none:$5"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			s := serveUDP(t)
			var source sums
			source.set(count(name, 1))
			start(t, s, &source, tc.opts)
			s.want(t, tc.want)
		})
	}
}

// Lines that do not fit in one packet all arrive.
func TestManyLines(t *testing.T) {
	for s, lines := range map[*server]int{
		serveTCP(t, "127.0.0.1:0"): 5000,
		serveUDP(t):                500, // fits in the buffer of the socket
	} {
		t.Run(s.network, func(t *testing.T) {
			var list []Sum
			var want []string
			for i := range lines {
				name := fmt.Sprintf("ratelimit.service.rate_limit.api.user_%d.total_hits", i)
				list, want = append(list, count(name, 7)), append(want, name+":7|c")
			}
			var source sums
			source.set(list...)
			start(t, s, &source, Options{})
			s.want(t, want...)
		})
	}
}

// Growth during an outage of the server is sent when the server is back. The outage is logged unless
// the client is quiet.
func TestServerComesAndGoes(t *testing.T) {
	var source sums
	source.set(count("a", 1))
	gone := &server{network: "tcp", address: testenv.OwnAddr(t)}
	var quiet, log testenv.Log
	start(t, gone, &source, Options{Quiet: true, Logger: slog.New(slog.NewTextHandler(&quiet, nil))})()
	testenv.Equal(t, quiet.String(), "", "log")
	stop := start(t, gone, &source, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	log.WaitFor(t, "do not reach statsd")
	source.set(count("a", 5))
	serveTCP(t, gone.address).want(t, "a:5|c")
	stop()
	for _, line := range []string{"do not reach statsd", "sending metrics"} {
		testenv.Equal(t, strings.Count(log.String(), line), 1, "times that %q is in\n%s", line, log.String())
	}
}

// Lines of sums that left the source are removed, even if no server listens at the address.
func TestLinesLeave(t *testing.T) {
	conn := testenv.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	conn.Close()
	var source sums
	c := &Client{opts: Options{Source: source.all, Network: "udp", Address: conn.LocalAddr().String()}, lines: map[lineKey]*line{}}
	failed := 0
	for round := range 100 {
		var list []Sum
		for i := range 100 {
			list = append(list, count(fmt.Sprint("ratelimit.service.rate_limit.api.user_", round, "_", i), 7))
		}
		source.set(list...)
		if c.flush(t.Context()) != nil {
			failed++
		}
	}
	if len(c.lines) != 100 || failed == 0 {
		t.Errorf("%d lines after %d flushes that failed, want 100", len(c.lines), failed)
	}
}

// A server that accepts connections but does not read delays neither the source nor, except briefly,
// the return of Run.
func TestSlowServer(t *testing.T) {
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t) // without Accept
	defer listener.Close()
	var list []Sum
	for i := range 200_000 { // more than the kernel buffers
		list = append(list, count(fmt.Sprintf("ratelimit.service.rate_limit.api.user_%d.total_hits", i), 7))
	}
	stop := testenv.Running(New(Options{
		Source: slices.Values(list), Network: "tcp", Address: listener.Addr().String(), Interval: time.Hour,
		Logger: slog.New(slog.DiscardHandler),
	}).Run)
	began := time.Now()
	stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("stopping took %v", took)
	}
}
