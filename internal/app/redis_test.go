package app

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

// redis is one that can go and come back at the same address.
type redis interface {
	Addr() string
	Stop()
	Start()
}

// miniature is a redis inside the test.
type miniature struct {
	*miniredis.Miniredis
	t *testing.T
}

func (m miniature) Stop() { m.Close() }

func (m miniature) Start() {
	m.t.Helper()
	if err := m.Restart(); err != nil {
		m.t.Fatal(err)
	}
}

func TestRedisComesAndGoes(t *testing.T) {
	t.Run("miniature", func(t *testing.T) {
		redisComesAndGoes(t, miniature{miniredis.RunT(t), t})
	})
	t.Run("real", func(t *testing.T) {
		redisComesAndGoes(t, testenv.RedisServer(t))
	})
}

func redisComesAndGoes(t *testing.T, r redis) {
	addr := r.Addr()
	r.Stop()
	f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+addr)
	f.wantHealth(false, "redis has not been able to decide yet")
	const fails = "redis fails, requests are answered UNAVAILABLE"
	f.wantLog(fails)
	f.wantUnavailable()
	f.wantAnswer("GET", f.DebugAddr(), "/", 200, "in Redis at "+addr, "FAILS since", "worked last: never", "(connection)")

	r.Start()
	f.wantHealth(true, "OK")
	f.wantLog("redis works again")
	f.wantLog("redis can decide")
	if n := strings.Count(f.log.String(), fails); n != 1 {
		t.Errorf("its absence was logged %d times, want once", n)
	}
	f.wantLimit(3)
	f.wantAnswer("GET", f.DebugAddr(), "/", 200, "in Redis at "+addr, "works, worked last: 2")

	r.Stop()
	f.wantUnavailable()
	f.wantHealth(true, "OK") // old news to Envoy, and a restart would not help
	f.wantAnswer("GET", f.DebugAddr(), "/", 200, "health    OK", "FAILS since", "(connection)")

	r.Start()
	f.wantLimit(3)
}

// TestRedisThatCannotDecide is answered by, but must not count as healthy.
func TestRedisThatCannotDecide(t *testing.T) {
	for _, tt := range []struct{ name, option, value, reason string }{
		{"replica", "--replicaof", "127.0.0.1 1", "redis is a read-only replica"},
		{"cluster", "--cluster-enabled", "yes", "redis runs in cluster mode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := testenv.RedisServer(t, append([]string{tt.option}, strings.Fields(tt.value)...)...)
			f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+r.Addr())
			f.wantLog(tt.reason)
			f.wantHealth(false, "redis has not been able to decide yet")
			f.wantAnswer("GET", f.DebugAddr(), "/", 200, "FAILS since", tt.reason)
		})
	}
}

// wantUnavailable asks with a deadline, and wants UNAVAILABLE before it.
func (f *fixture) wantUnavailable() {
	f.t.Helper()
	const deadline = 2 * time.Second
	ctx, cancel := context.WithTimeout(f.t.Context(), deadline)
	defer cancel()
	began := time.Now()
	code, err := f.ask(ctx, "alice")
	if status.Code(err) != codes.Unavailable {
		f.t.Errorf("got %v %v, want UNAVAILABLE", code, err)
	}
	if took := time.Since(began); took >= deadline {
		f.t.Errorf("the answer took %v", took)
	}
}

// TestShortDeadline holds to Envoy's deadline although Redis may take longer.
func TestShortDeadline(t *testing.T) {
	addr, _, release := heldRedis(t)
	t.Cleanup(func() { close(release) })
	f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+addr, "--redis-op-timeout=1s")
	f.wantHealth(true, "OK")
	eventually(t, func() error { // a busy machine may miss so short a deadline
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := f.ask(ctx, "alice"); status.Code(err) != codes.Unavailable {
			return fmt.Errorf("got %v, want UNAVAILABLE", err)
		}
		return nil
	})
}

func TestRedisOptions(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("weir", "pa:ss")
	f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+server.Addr(), "--redis-auth=weir:pa:ss", "--cache-key-prefix=blue:")
	f.wantHealth(true, "OK")
	if code, err := f.ask(t.Context(), "alice"); err != nil || code != ratelimitv3.RateLimitResponse_OK {
		t.Fatalf("got %v %v", code, err)
	}
	keys := server.DB(0).Keys()
	if len(keys) != 1 || keys[0] != "blue:w1|api|user=alice|86400" {
		t.Errorf("keys: %q", keys)
	}
}
