package app

import (
	"context"
	"fmt"
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
	f.wantHealth(false, "redis has not been reached yet")
	f.wantLog("store cannot be reached")
	f.wantUnavailable()

	r.Start()
	f.wantHealth(true, "OK")
	f.wantLog("store found")
	f.wantLimit(3)
	f.wantAnswer("GET", f.DebugAddr(), "/", 200, "in Redis at "+addr)

	r.Stop()
	f.wantUnavailable()
	f.wantHealth(true, "OK") // old news to Envoy, and a restart would not help

	r.Start()
	f.wantLimit(3)
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
