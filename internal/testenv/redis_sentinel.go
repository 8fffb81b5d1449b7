package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// RedisSentinel starts a sentinel that watches primary under the name "weir". It
// promotes the replica when the primary has been down for half a second. RedisSentinel
// returns when the sentinel knows the replica. config has further lines of its configuration.
func RedisSentinel(t testing.TB, primary *Redis, config ...string) *Redis {
	t.Helper()
	s := &Redis{t: t, program: Program(t, "redis-server"), addr: OwnAddr(t)}
	for _, line := range config {
		if password, ok := strings.CutPrefix(line, "requirepass "); ok {
			s.password = password
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf") // the sentinel rewrites it
	host, port, _ := net.SplitHostPort(primary.addr)
	_, own, _ := net.SplitHostPort(s.addr)
	text := fmt.Sprintf(`port %s
bind 127.0.0.1
dir %s
sentinel monitor weir %s %s 1
sentinel down-after-milliseconds weir 500
sentinel failover-timeout weir 3000
%s
`, own, dir, host, port, strings.Join(config, "\n"))
	OK(t, os.WriteFile(file, []byte(text), 0o600))
	s.args = []string{file, "--sentinel"}
	t.Cleanup(s.Stop)
	if err := s.start(); err != nil {
		t.Fatalf("starting a sentinel: %v\n%s", err, s.log.Bytes())
	}
	Until(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(s.Command("info", "sentinel"), "slaves=1")
	})
	return s
}

// RedisReplica starts a replica of primary, and returns when it has the primary's data.
func RedisReplica(t testing.TB, primary *Redis, args ...string) *Redis {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.addr)
	r := RedisServer(t, append([]string{"--replicaof", host, port}, args...)...)
	r.waitForPrimary()
	return r
}

// waitForPrimary waits until r, a replica, has its primary's data.
func (r *Redis) waitForPrimary() {
	r.t.Helper()
	Until(r.t, "the replica has its primary's data", func() bool {
		return strings.Contains(r.Command("info", "replication"), "master_link_status:up")
	})
}
