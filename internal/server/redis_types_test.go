package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// TestRedisCluster asks about users whose counters are on all nodes at once.
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
	testenv.Eventually(t, func() error { // those that are unused are kept for a while
		var mu sync.Mutex
		var found []string
		err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *goredis.Client) error {
			keys, err := node.Keys(ctx, "*").Result()
			mu.Lock()
			defer mu.Unlock()
			found = append(found, countersAmong(keys)...)
			return err
		})
		if err == nil && len(found) != len(users)+1 { // and that of wantLimit
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

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	auth := []string{"--requirepass", "swordfish", "--masterauth", "swordfish"}
	primary := testenv.RedisServer(t, auth...)
	testenv.RedisReplica(t, primary, auth...)
	sentinel := testenv.RedisSentinel(t, primary, "sentinel auth-pass weir swordfish", "requirepass swordfish-too")
	f := start(t, "--config="+directory(t, limited(3)), "--redis-type=sentinel", "--redis-url=weir,"+sentinel.Addr(),
		"--redis-auth=swordfish", "--redis-sentinel-auth=swordfish-too", "--redis-timeout=500ms")
	f.wantHealth(true, "OK")
	f.wantLimit(3)
	primary.Stop()
	f.wantLimit(3) // of the promoted replica
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
	f.askMany("alice") // denied per second, and so not counted per year
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
	if _, err := f.ask(t.Context(), "bob"); status.Code(err) != codes.Unavailable {
		t.Errorf("got error %v without the second Redis, want UNAVAILABLE", err)
	}
	testenv.Eventually(t, func() error { // it is given back
		first.FastForward(time.Millisecond) // for which unused counters are kept
		if slices.Contains(first.Keys(), "w1|api|user=bob|365d") {
			return fmt.Errorf("a request without an answer was counted")
		}
		return nil
	})
}

// TestRedisTLSFiles reaches a Redis that asks for a certificate, and goes on when
// the authority and all certificates are replaced.
func TestRedisTLSFiles(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	redis, addr := testenv.RedisTLS(t, authority)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	issue := func(issuer *testenv.Authority) {
		certificate, key := issuer.Issue(t, "weir")
		for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
			testenv.OK(t, os.WriteFile(file(name), content, 0o600))
		}
	}
	testenv.OK(t, os.WriteFile(file("ca.crt"), authority.PEM(), 0o600))
	issue(testenv.NewAuthority(t)) // whom Redis does not know
	f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+addr, "--redis-tls", inTime,
		"--redis-tls-cacert="+file("ca.crt"), "--redis-tls-client-cert="+file("tls.crt"), "--redis-tls-client-key="+file("tls.key"))
	f.wantLog("kind=connection")
	issue(authority)
	f.wantHealth(true, "OK")
	f.wantLimit(3)
	redis.Stop()
	f.wantUnavailable()
}

func TestRedisThatIsFollowed(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	f := start(t, "--config="+directory(t, limited(3)), "--redis-url="+r.Addr(), inTime, "--redis-health-check-active-connection")
	f.wantHealth(true, "OK")
	r.Stop()
	f.wantHealth(false, "redis is unavailable")
	r.Start()
	f.wantHealth(true, "OK")
	f.wantLimit(3)
}
