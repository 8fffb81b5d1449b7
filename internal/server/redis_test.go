package server

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// inTime sets a timeout that a healthy Redis never exceeds, even on a busy machine.
const inTime = "--redis-timeout=20s"

// TestRedisComesAndGoes starts without Redis, and later stops Redis. The stop changes health only if
// health is set to follow Redis.
func TestRedisComesAndGoes(t *testing.T) {
	t.Parallel()
	for name, followed := range map[string]bool{"=false": false, "=true": true} {
		t.Run("followed"+name, func(t *testing.T) {
			t.Parallel()
			r := testenv.RedisServer(t)
			addr := r.Addr()
			r.Stop()
			f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+addr, inTime, "--redis-health-check-active-connection"+name)
			f.wantHealth(false, "redis is unavailable")
			const fails = "redis is failing, failure modes apply"
			f.wantLog(fails)
			f.wantUnavailable()
			f.wantAnswer("GET", f.debug.addr(), "/", 200, "in Redis at "+addr, "FAILS since", "failure mode error: ", ": connection: ")

			r.Start()
			f.wantHealth(true, "OK")
			f.wantLog("redis works again")
			f.wantLog("redis is available")
			testenv.Equal(t, strings.Count(f.log.String(), fails), 1, "logs of its absence")
			f.wantLimit(3)
			f.wantAnswer("GET", f.debug.addr(), "/", 200, "in Redis at "+addr, "works, last at ")

			r.Stop()
			f.wantUnavailable()
			if followed {
				f.wantHealth(false, "redis is unavailable")
			} else { // a restart would not help
				f.wantHealth(true, "OK")
				f.wantAnswer("GET", f.debug.addr(), "/", 200, "health      OK", "FAILS since", ": connection: ")
			}
			r.Start()
			f.wantHealth(true, "OK")
			f.wantLimit(3)
		})
	}
}

// countersAmong returns the keys of counters, without the keys of probes and shared data.
func countersAmong(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, "w1|probe") || strings.Contains(key, "w1|{weir}") })
}

// TestRedisCluster sends requests for users whose counters are on different nodes.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	var addrs []string
	for _, node := range testenv.RedisCluster(t, 3, 0, "--requirepass", "swordfish", "--cluster-node-timeout", "60000") {
		addrs = append(addrs, node.Addr())
	}
	f := start(t, "--config="+directory(t, limited(3)), "--redis-type=CLUSTER", "--redis-url="+strings.Join(addrs, ","),
		"--redis-auth=swordfish", "--cache-key-prefix=blue:", inTime)
	f.wantHealth(true, "OK")
	f.wantLimit(3)
	users := []string{"alice", "bob", "carol", "dave", "eve", "frank"}
	for range 3 {
		if got := f.askMany(users...); got.OverallCode != ratelimitv3.RateLimitResponse_OK {
			t.Fatalf("got %v, want three requests to pass", got)
		}
	}
	denied := f.askMany("alice", "grace")
	if denied.OverallCode != ratelimitv3.RateLimitResponse_OVER_LIMIT || denied.Statuses[1].LimitRemaining != 3 {
		t.Errorf("got %v, want alice to be over and all of 3 left to grace", denied)
	}

	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs, Password: "swordfish", ReadTimeout: patience})
	defer client.Close()
	spelling := regexp.MustCompile(`^blue:w1\|api\|user=\w+\{[0-7][0-9A-F]\}\|365d$`)
	testenv.Eventually(t, func() error { // counters expire some time after their last use
		var mu sync.Mutex
		var found []string
		err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *goredis.Client) error {
			keys, err := node.Keys(ctx, "*").Result()
			mu.Lock()
			defer mu.Unlock()
			found = append(found, countersAmong(keys)...)
			return err
		})
		if err == nil && len(found) != len(users)+1 { // and the user of wantLimit
			err = fmt.Errorf("%d counters, want %d: none of the denied request", len(found), len(users)+1)
		}
		for _, key := range found {
			if err == nil && !spelling.MatchString(key) {
				err = fmt.Errorf("key %s is not spelled as in a cluster", key)
			}
		}
		return err
	})
	f.wantNoPassword()
}

func TestRedisPerSecond(t *testing.T) {
	first, second := miniredis.RunT(t), miniredis.RunT(t)
	second.RequireAuth("swordfish")
	const rules = "domain: api\ndescriptors:\n  - key: user\n    rate_limit:\n" +
		"      - {name: burst, unit: second, unit_multiplier: 1000000, requests_per_unit: 2}\n" +
		"      - {name: budget, unit: year, requests_per_unit: 3}\n"
	f := start(t, "--config="+directory(t, rules), "--redis-url="+first.Addr(), inTime,
		"--redis-persecond", "--redis-persecond-url="+second.Addr(), "--redis-persecond-auth=swordfish")
	f.wantHealth(true, "OK")
	f.wantLimit(2)
	f.askMany("alice")
	f.askMany("alice")
	f.askMany("alice") // denied by the limit per second, so not counted per year
	for name, r := range map[string]*miniredis.Miniredis{"|365d": first, "|1000000s": second} {
		for _, key := range countersAmong(r.Keys()) {
			if !strings.HasSuffix(key, name) {
				t.Errorf("key %s is in the wrong Redis", key)
			}
		}
		if text, err := r.Get("w1|api|user=alice" + name); err != nil || !strings.HasSuffix(text, "000002") {
			t.Errorf("counter of alice%s: %q, want 2 used (error: %v)", name, text, err)
		}
	}
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "in Redis at "+first.Addr()+", of limits per second at "+second.Addr())
	f.wantNoPassword()

	second.Close()
	_, err := f.ask(t.Context(), "bob")
	testenv.Equal(t, status.Code(err), codes.Unavailable, "without the second Redis")
	testenv.Until(t, "the charge in the first Redis is released", func() bool {
		first.FastForward(time.Millisecond) // the time for which unused counters are kept
		return !slices.Contains(first.Keys(), "w1|api|user=bob|365d")
	})
}

// TestRedisTLS refuses a Redis whose certificate has an unknown authority or, unless names are skipped,
// another name. A client without a certificate is refused. A client whose certificate Redis does not
// trust connects after its files are replaced.
func TestRedisTLS(t *testing.T) {
	authority, dir := testenv.NewAuthority(t), t.TempDir()
	redis, addr := testenv.RedisTLS(t, authority)
	_, port, _ := net.SplitHostPort(addr)
	issue := func(issuer *testenv.Authority) {
		certificate, key := issuer.Issue(t, "weir")
		write(t, dir+"/tls.crt", string(certificate))
		write(t, dir+"/tls.key", string(key))
	}
	write(t, dir+"/ca.crt", string(authority.PEM()))
	begin := func(host string, args ...string) *fixture {
		return start(t, append(args, "--config="+directory(t, limited(3)), "--redis-url="+host+":"+port, "--redis-tls", inTime,
			"--redis-tls-client-cert="+dir+"/tls.crt", "--redis-tls-client-key="+dir+"/tls.key")...)
	}
	const skip = "--redis-tls-skip-hostname-verification"
	ca := "--redis-tls-cacert=" + dir + "/ca.crt"
	issue(authority)
	begin("127.0.0.1", skip).wantLog("certificate signed by unknown authority")
	begin("localhost", ca).wantLog("wanted to match localhost")
	begin("localhost", ca, skip).wantLog("redis is available")
	start(t, "--config="+directory(t, limited(3)), "--redis-url="+addr, "--redis-tls", inTime, ca).wantLog("kind=connection")
	issue(testenv.NewAuthority(t)) // Redis does not trust it
	f := begin("127.0.0.1", ca)
	f.wantLog("kind=connection")
	issue(authority)
	f.wantHealth(true, "OK")
	f.wantLimit(3)
	redis.Stop()
	f.wantUnavailable()
}

// TestDenyMemoryIsASetting reads the metric of denials that were decided from memory.
func TestDenyMemoryIsASetting(t *testing.T) {
	const denials = `ratelimit_service_rate_limit_over_limit_with_local_cache{domain="api",key1="user",key2=""} `
	for _, c := range []struct {
		value, stop string
		remembered  bool
	}{{"", "", true}, {"0", "", false}, {"", "false", false}, {"4194304", "false", true}, {"0", "false", false}} {
		t.Run("LOCAL_CACHE_SIZE_IN_BYTES="+c.value+c.stop, func(t *testing.T) {
			t.Setenv("LOCAL_CACHE_SIZE_IN_BYTES", c.value)
			t.Setenv("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", c.stop)
			f := start(t, "--config="+directory(t, limited(1)), "--redis-url="+miniredis.RunT(t).Addr(), inTime)
			f.wantHealth(true, "OK")
			testenv.Eventually(t, func() error { // denials are remembered for a second
				for range 3 { // the first may be admitted or denied by Redis
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
