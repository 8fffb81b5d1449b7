package server

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"weir/internal/testenv"
)

// inTime is a time-out that no healthy Redis reaches, however busy the machine.
const inTime = "--redis-timeout=20s"

func TestRedisComesAndGoes(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	addr := r.Addr()
	r.Stop()
	f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+addr, inTime)
	f.wantHealth(false, "redis is unavailable")
	const fails = "redis is failing, failure modes apply"
	f.wantLog(fails)
	f.wantUnavailable()
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "in Redis at "+addr, "FAILS since", "failure mode error: ", ": connection: ")

	r.Start()
	f.wantHealth(true, "OK")
	f.wantLog("redis works again")
	f.wantLog("redis is available")
	if n := strings.Count(f.log.String(), fails); n != 1 {
		t.Errorf("its absence was logged %d times, want once", n)
	}
	f.wantLimit(3)
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "in Redis at "+addr, "works, last at ")

	r.Stop()
	f.wantUnavailable()
	f.wantHealth(true, "OK") // old news to Envoy, and a restart would not help
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "health      OK", "FAILS since", ": connection: ")

	r.Start()
	f.wantLimit(3)
}

// TestRedisThatCannotDecide is answered by, but must not count as healthy.
func TestRedisThatCannotDecide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, option, value, reason string }{
		{"replica", "--replicaof", "127.0.0.1 1", "redis is a read-only replica"},
		{"cluster", "--cluster-enabled", "yes", "redis runs in cluster mode; set REDIS_TYPE=CLUSTER"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := testenv.RedisServer(t, append([]string{tt.option}, strings.Fields(tt.value)...)...)
			f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+r.Addr(), inTime)
			f.wantLog(tt.reason)
			f.wantHealth(false, "redis is unavailable")
			f.wantAnswer("GET", f.debug.addr(), "/", 200, "FAILS since", tt.reason)
		})
	}
}

// countersAmong leaves out of keys those that probes charge, and what servers share beside
// counters.
func countersAmong(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, "w1|probe") || strings.Contains(key, "w1|{weir}") })
}

// TestOneRequestIsOneCommand watches Redis while Envoy asks about five limits.
func TestOneRequestIsOneCommand(t *testing.T) {
	r := testenv.RedisServer(t)
	client := goredis.NewClient(&goredis.Options{Addr: r.Addr(), ReadTimeout: patience})
	defer client.Close()
	f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+r.Addr(), inTime)
	f.wantHealth(true, "OK")
	testenv.Must(f.ask(t.Context(), "warm"))(t) // connects, and loads the script

	before := commandCalls(t, client)
	response := f.askMany("user0", "user1", "user2", "user3", "user4")
	got := commandCalls(t, client)
	for i, status := range response.Statuses {
		if status.LimitRemaining != 2 {
			t.Errorf("descriptor %d: %d of 3 are left, want 2", i, status.LimitRemaining)
		}
	}
	for name, n := range before {
		if got[name] -= n; got[name] == 0 {
			delete(got, name)
		}
	}
	// Exceptions and wishes for reports may be read in between.
	delete(got, "hgetall")
	delete(got, "exists")
	// What the script does is counted beside it.
	if want := map[string]int{"evalsha": 1, "time": 1, "mget": 1, "set": 5, "info": 1}; !maps.Equal(got, want) {
		t.Errorf("Redis was sent %v, want %v", got, want)
	}
}

// commandCalls returns how often each command was called before this one.
func commandCalls(t *testing.T, client *goredis.Client) map[string]int {
	t.Helper()
	stats := testenv.Must(client.InfoMap(t.Context(), "commandstats").Result())(t)
	calls := map[string]int{}
	for name, numbers := range stats["Commandstats"] {
		var n int
		if _, err := fmt.Sscanf(numbers, "calls=%d,", &n); err != nil {
			t.Fatalf("%s: %v", numbers, err)
		}
		calls[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return calls
}

// TestRedisTLS reaches for a Redis whose certificate is of another name and of an
// authority that not everybody knows.
func TestRedisTLS(t *testing.T) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	redis := miniredis.NewMiniRedis()
	testenv.OK(t, redis.StartTLS(https.TLS))
	defer redis.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw})))
	for _, tt := range []struct{ authority, skip, log string }{
		{"", "true", "certificate signed by unknown authority"},
		{authority, "", "not localhost"},
		{authority, "true", "redis is available"},
	} {
		t.Setenv("REDIS_TLS_CACERT", tt.authority)
		t.Setenv("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", tt.skip)
		f := start(t, "--config="+directory(t, limited(3)), "--redis-url=localhost:"+redis.Port(), "--redis-tls", inTime)
		f.wantLog(tt.log)
	}
}

// TestDenyMemoryIsASetting counts what Redis is asked about a counter that is
// known to be over.
func TestDenyMemoryIsASetting(t *testing.T) {
	const denials = `ratelimit_service_rate_limit_over_limit_with_local_cache{domain="api",key1="user",key2=""} `
	for _, c := range []struct {
		value      string
		remembered bool
	}{{"", true}, {"0", false}} {
		t.Run("LOCAL_CACHE_SIZE_IN_BYTES="+c.value, func(t *testing.T) {
			t.Setenv("LOCAL_CACHE_SIZE_IN_BYTES", c.value)
			f := start(t, "--config="+directory(t, limited(1)), "--redis-url="+miniredis.RunT(t).Addr(), inTime)
			f.wantHealth(true, "OK")
			testenv.Eventually(t, func() error { // what is remembered is forgotten after a second
				for range 3 { // admitted or denied by Redis, and denied again
					testenv.Must(f.ask(t.Context(), "alice"))(t)
				}
				_, page, err := f.request("GET", f.metrics.addr(), "/metrics", "")
				_, count, found := strings.Cut(page, denials)
				if remembered := !strings.HasPrefix(count, "0\n"); err != nil || !found || remembered != c.remembered {
					return fmt.Errorf("%.10q denials are remembered, want some: %t (error: %v)", count, c.remembered, err)
				}
				return nil
			})
		})
	}
}
