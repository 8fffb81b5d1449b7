package e2e

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"weir/internal/testenv"
)

// TestBan lets a client of a real Envoy go over a limit that bans, knock until the ban
// ends, and come back then: with counters in Redis, and in memory.
func TestBan(t *testing.T) {
	t.Parallel()
	const rules = "domain: api\ndescriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 2, deny_for: 4s}}]\n"
	const ban = 4 * time.Second
	for name, env := range map[string][]string{
		"redis":  {"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="},
		"memory": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var redis *testenv.Redis
			if env != nil {
				redis = testenv.RedisServer(t)
				env[2] += redis.Addr()
			}
			s := startGateway(t, gateway{}, startUpstream(t), rules, env...)
			status := func(user string) int { return s.ask("/", "x-user: "+user).status }

			var begins time.Time // no later than the ban
			for {                // until three come within a second
				begins = time.Now()
				if a := s.ask("/", "x-user: alice"); a.status == 429 {
					if got := a.header.Get("retry-after"); got != "4" {
						t.Errorf("retry-after is %s, want 4", got)
					}
					break
				}
			}
			began := time.Now() // no earlier than the ban
			if got := status("bob"); got != 200 {
				t.Errorf("another user: status %d", got)
			}
			knocks := 0
			for time.Since(began) < ban-500*time.Millisecond {
				asked := time.Now()
				a := s.ask("/", "x-user: alice")
				wait, err := strconv.Atoi(a.header.Get("retry-after"))
				if a.status != 429 || err != nil {
					t.Fatalf("%v after the ban began: status %d, retry-after %q", asked.Sub(began), a.status, a.header.Get("retry-after"))
				}
				// It is in whole seconds, and later by less than one for a client that comes often.
				told := time.Duration(wait) * time.Second
				if time.Now().Add(told).Before(begins.Add(ban)) || asked.Add(told).After(began.Add(ban+2*time.Second)) {
					t.Errorf("%v after the ban began: retry-after is %d", asked.Sub(began), wait)
				}
				knocks++
				testenv.Pass(200 * time.Millisecond)
			}
			if knocks < 5 {
				t.Errorf("only %d knocks", knocks)
			}
			testenv.Pass(time.Until(began.Add(ban)))
			if got := status("alice"); got != 200 {
				t.Errorf("after the ban: status %d", got)
			}
			if redis == nil {
				return
			}

			for status("alice") != 429 {
			}
			lift(t, redis, "w1|api|user=alice|1s")
			testenv.Pass(time.Second + 100*time.Millisecond) // for which used-up limits are remembered
			if got := status("alice"); got != 200 {
				t.Errorf("after the ban was lifted: status %d", got)
			}
		})
	}
}

// lift deletes the only counter that there is. Beside it is the hash of the servers.
func lift(t *testing.T, r *testenv.Redis, key string) {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", r.Addr()))(t)
	defer conn.Close()
	fmt.Fprintf(conn, "DBSIZE\r\nDEL %s\r\n", key)
	in := bufio.NewReader(conn)
	for _, want := range []struct{ what, reply string }{{"keys", ":2\r\n"}, {"deleted", ":1\r\n"}} {
		if reply, err := in.ReadString('\n'); err != nil || reply != want.reply {
			t.Errorf("%s: %q, error %v, want %q", want.what, reply, err, want.reply)
		}
	}
}
