package replicas_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/operators/denials"
	"weir/internal/operators/excerpt"
	"weir/internal/operators/replicas"
	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// board is that of limiter/redis as this package asks it.
type board struct{ *redis.Board }

func (b board) Poll(ctx context.Context, server string) (string, bool, error) {
	said, err := b.Board.Poll(ctx, server)
	return said.Reset, said.Wanted, err
}

// server is one of several on one Redis.
type server struct {
	*replicas.Replicas
	board  board
	log    *testenv.Log
	forgot atomic.Int64
	stop   func()
}

// run runs a server that says of itself what report returns.
func run(t *testing.T, r *testenv.Redis, report func(keys int) replicas.Report) *server {
	t.Helper()
	b, err := redis.OpenBoard(redis.Server{Addr: r.Addr()}, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{board: board{b}, log: new(testenv.Log)}
	s.Replicas = replicas.New(replicas.Options{
		Board: s.board, Report: report, Forget: func() { s.forgot.Add(1) }, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		s.stop()
		b.Close()
	})
	return s
}

// uses reports that an exception was used so often.
func uses(n uint64) func(int) replicas.Report {
	return func(int) replicas.Report { return replicas.Report{Uses: map[string]uint64{"x": n}} }
}

// wantOthers waits until the others of s report that sum, from so many servers.
func wantOthers(t *testing.T, s *server, servers int, sum uint64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		reports, err := s.Reports(t.Context())
		if got := replicas.Sum(nil, reports)["x"]; err != nil || len(reports) != servers || got != sum {
			return fmt.Errorf("got %d from %d servers, error %v, want %d from %d", got, len(reports), err, sum, servers)
		}
		return nil
	})
}

func TestServersComeAndGo(t *testing.T) {
	r := testenv.RedisServer(t)
	one, two := run(t, r, uses(1)), run(t, r, uses(20))
	wantOthers(t, one, 1, 20)
	three := run(t, r, uses(300))
	wantOthers(t, one, 2, 320)
	wantOthers(t, two, 2, 301)
	three.stop()
	wantOthers(t, one, 1, 20)
	if sum := replicas.Sum(map[string]uint64{"x": 1, "y": 2}, []replicas.Report{uses(4)(0)}); sum["x"] != 5 || sum["y"] != 2 {
		t.Errorf("got %v", sum)
	}
	var alone *replicas.Replicas
	if reports, err := alone.Reports(t.Context()); len(reports) != 0 || err != nil {
		t.Errorf("alone: got %d reports, error %v", len(reports), err)
	}
}

// A reset by any server reaches all within a second.
func TestResetsAreKnown(t *testing.T) {
	r := testenv.RedisServer(t)
	servers := []*server{run(t, r, uses(0)), run(t, r, uses(0))}
	for round := range int64(3) {
		for _, s := range servers { // the first poll counts as a reset, too
			testenv.Until(t, "the server forgets", func() bool { return s.forgot.Load() == round+1 })
		}
		if err := servers[0].board.AnnounceReset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Servers wait in vain for one that hangs, but not for long.
func TestServerHangs(t *testing.T) {
	r := testenv.RedisServer(t)
	one := run(t, r, uses(1))
	wantOthers(t, one, 0, 0)
	if _, _, err := one.board.Poll(t.Context(), "that says nothing more"); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "an answer is no longer kept", func() bool {
		began := time.Now()
		reports, err := one.Reports(t.Context())
		took := time.Since(began)
		if err != nil || len(reports) != 0 || took > 20*time.Second {
			t.Fatalf("got %d reports, error %v, after %v", len(reports), err, took)
		}
		return took > time.Second
	})
}

// A Redis that fails is asked less often, and logged once, until it is back.
func TestRedisIsKilled(t *testing.T) {
	r := testenv.RedisServer(t)
	one, two := run(t, r, uses(1)), run(t, r, uses(20))
	wantOthers(t, one, 1, 20)
	forgot := one.forgot.Load()
	r.Stop()
	one.log.WaitFor(t, "redis does not answer the poll for other servers")
	testenv.Until(t, "an error is returned", func() bool {
		_, err := one.Reports(t.Context())
		return err != nil
	})
	testenv.Pass(3 * time.Second) // several polls
	r.Start()
	wantOthers(t, one, 1, 20)
	one.log.WaitFor(t, "redis answers again")
	if n := strings.Count(one.log.String(), "redis does not answer"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, one.log)
	}
	// Resets while nobody could ask would be unknown.
	if err := two.board.AnnounceReset(t.Context()); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the server forgets", func() bool { return one.forgot.Load() > forgot })
}

// What somebody else writes into Redis is no report.
func TestGarbageIsNoReport(t *testing.T) {
	r := testenv.RedisServer(t)
	one := run(t, r, uses(1))
	client := goredis.NewClient(&goredis.Options{Addr: r.Addr()})
	defer client.Close()
	random := make([]byte, 1000)
	for i := range random {
		random[i] = byte(rand.IntN(256))
	}
	for i, garbage := range []string{"", "{}", "\x1f\x8b\x08garbage", string(random), strings.Repeat("x", redis.MaxReport+1)} {
		name := fmt.Sprint("server", i)
		if _, _, err := one.board.Poll(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := client.Set(t.Context(), limiter.SharedKey("", "report:"+name), garbage, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	reports, err := one.Reports(t.Context())
	if err != nil || len(reports) != 0 {
		t.Errorf("got %d reports, error %v", len(reports), err)
	}
}

// The largest report fits, with as many keys as there is room for, and keeps what it says.
func TestLargeReports(t *testing.T) {
	r := testenv.RedisServer(t)
	now := time.Now()
	recorder := denials.New(now)
	for i := range 20_000 {
		l, err := limiter.NewLimit(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Minute, Series: limiter.LabelSet{Domain: "api", Key1: "user", Rule: fmt.Sprint("rule", i%50), Limit: "minute"}.Series()})
		if err != nil {
			t.Fatal(err)
		}
		value := fmt.Sprintf("%x%x%x%x", rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64())
		for range 2 { // of a flood, who is denied once is not shown
			recorder.Record(now, &denials.Denial{Limit: l, Source: excerpt.Source{
				Domain: "api", Entries: []limiter.Entry{{Key: "user", Value: value}, {Key: "path", Value: value}}, Key: fmt.Append(nil, i),
			}})
		}
	}
	used := make(map[string]uint64)
	for range 10_000 {
		used[strings.ToLower(fmt.Sprintf("%x", rand.Uint64()))] = rand.Uint64N(1_000_000)
	}
	one := run(t, r, uses(1))
	run(t, r, func(keys int) replicas.Report {
		return replicas.Report{Denials: recorder.Summary(now, keys), Uses: used}
	})
	testenv.Eventually(t, func() error {
		reports, err := one.Reports(t.Context())
		if err != nil || len(reports) != 1 {
			return fmt.Errorf("got %d reports, error %v", len(reports), err)
		}
		if got := reports[0]; len(got.Uses) != len(used) || len(got.Denials.Minute.Limits) != 50 || len(got.Denials.Minute.Limits[0].Keys) == 0 {
			return fmt.Errorf("got %d uses, %d limits", len(got.Uses), len(got.Denials.Minute.Limits))
		}
		return nil
	})
	if log := one.log.String(); log != "" {
		t.Errorf("log:\n%s", log)
	}
}
