package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

func TestRedisIsKilledAndStartedAgain(t *testing.T) {
	r := testenv.RedisServer(t)
	s := open(t, Options{Main: at(r.Addr())})
	mustAsk(t, s, "k", perYear)

	// Nobody asks while it is away: the first request after is not the victim
	// of a connection that Redis has closed.
	r.Stop()
	r.Start()
	mustAsk(t, s, "k", perYear)

	r.Stop()
	for range 40 { // go-redis begins to refuse after as many as it may make connections, 4
		mustFail(t, s)
	}
	if err := s.Ping(context.Background()); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("Ping of a dead Redis: %v", err)
	}
	r.Start()
	testenv.Until(t, "requests are decided again", func() bool { // the breaker is open
		_, err := ask(context.Background(), s, "k", perYear)
		return err == nil
	})
}

// TLS hides from go-redis that the other side has closed a connection.
func TestRedisBehindTLSIsStartedAgain(t *testing.T) {
	server, client := certificates(t)
	r := miniredis.NewMiniRedis()
	testenv.OK(t, r.StartTLS(server))
	defer r.Close()
	s := open(t, Options{Main: Server{Addr: r.Addr(), TLS: always(client), Timeout: long}})
	mustAsk(t, s, "k", perYear)
	addr := r.Addr()
	r.Close()
	testenv.OK(t, r.StartAddrTLS(addr, server))
	mustAsk(t, s, "k", perYear)
}

func TestScriptIsLoadedAgain(t *testing.T) {
	r := testenv.RedisServer(t)
	reg := prometheus.NewRegistry()
	s := open(t, Options{Main: at(r.Addr()), Registerer: reg})
	for i := range 3 {
		do(t, connect(t, r), "script", "flush")
		if d := mustAsk(t, s, "k", perYear); d.Used != int64(i+1) {
			t.Errorf("%d used after %d charges", d.Used, i+1)
		}
	}
	if n := value(t, reg, "weir_redis_errors_total", kindNoScript); n != 3 {
		t.Errorf("the script was loaded %v times, want 3", n)
	}
}

func TestRedisIsLoading(t *testing.T) {
	t.Parallel()
	// Each key takes a tenth of a second to load, all of them longer than it takes
	// to ask, and after each Redis looks for clients.
	const keys = 500
	r := testenv.RedisServer(t, "--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024")
	admin := connect(t, r)
	for i := range keys {
		do(t, admin, "set", fmt.Sprint("filler ", i), strings.Repeat("x", 1024))
	}
	do(t, admin, "config", "set", "rdbcompression", "no")
	do(t, admin, "save")
	r.Stop()
	r.Start()

	reg := prometheus.NewRegistry()
	s := open(t, Options{Main: at(r.Addr()), Registerer: reg})
	if err := mustFail(t, s); !strings.Contains(err.Error(), "LOADING") {
		t.Errorf("error %q, want LOADING", err)
	}
	if n := value(t, reg, "weir_redis_errors_total", kindLoading); n != 1 {
		t.Errorf("%v errors of this kind are counted, want 1", n)
	}
	do(t, connect(t, r), "config", "set", "key-load-delay", "0")
	testenv.Until(t, "Redis has loaded its data", func() bool {
		_, err := ask(context.Background(), s, "k", perYear)
		return err == nil
	})
}

// silent is the address of somebody who accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() }) // the kernel accepts by itself
	return l.Addr().String()
}
