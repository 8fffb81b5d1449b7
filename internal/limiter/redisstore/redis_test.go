package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func TestOneRequestIsOneCommand(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{URL: r.Addr(), OpTimeout: long})
	mustAsk(t, s, "warm", perYear) // connects and loads the script

	hits := make([]limiter.Hit, 5)
	for i := range hits {
		hits[i] = limiter.Hit{Limit: perYear, Key: fmt.Append(nil, "counter ", i), Cost: 1}
	}
	before := commandCalls(t, admin)
	monitor := startMonitor(t, r)
	if _, err := s.Decide(context.Background(), hits, make([]limiter.Decision, len(hits))); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	got := commandCalls(t, admin)
	for name := range got {
		got[name] -= before[name]
	}
	do(t, admin, "echo", "end of request")

	for name, want := range map[string]int{"evalsha": 1, "time": 1, "mget": 1, "set": 5, "info": 1, "monitor": 1} {
		if got[name] != want {
			t.Errorf("%d calls of %s, want %d", got[name], name, want)
		}
		delete(got, name)
	}
	for name, n := range got {
		if n != 0 {
			t.Errorf("%d calls of %s, want none", n, name)
		}
	}
	// What a script does is marked "lua"; the rest was sent by somebody.
	var sent []string
	for _, line := range monitor.until(t, "end of request") {
		if !strings.Contains(line, " lua] ") && !strings.Contains(line, `"info"`) {
			sent = append(sent, line)
		}
	}
	if len(sent) != 1 || !strings.Contains(sent[0], `"evalsha"`) {
		t.Errorf("Redis was sent %q, want one EVALSHA", sent)
	}
}

// commandCalls tells how often each command was called.
func commandCalls(t *testing.T, c *redis.Client) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for line := range strings.Lines(do(t, c, "info", "commandstats").(string)) {
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(stats, ",")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("line %q of INFO commandstats: %v", line, err)
		}
		calls[name] = n
	}
	return calls
}

// monitor reads what MONITOR tells.
type monitor struct{ *bufio.Reader }

func startMonitor(t *testing.T, r *testenv.Redis) monitor {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(long)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	m := monitor{bufio.NewReader(conn)}
	m.until(t, "+OK")
	return m
}

// until reads lines up to one that contains end, which is left out.
func (m monitor) until(t *testing.T, end string) (lines []string) {
	t.Helper()
	for {
		line, err := m.ReadString('\n')
		if err != nil {
			t.Fatalf("reading MONITOR: %v", err)
		}
		if strings.Contains(line, end) {
			return lines
		}
		lines = append(lines, line)
	}
}

func TestCountersExpireWithTheirWindow(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{URL: r.Addr(), OpTimeout: long})
	for _, unit := range []limiter.Unit{limiter.Minute, limiter.Day, limiter.Year} {
		limit := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: unit})
		key := unit.String()
		for _, charge := range []string{"first", "second"} {
			period := unit.Duration().Milliseconds()
			before := time.Now().UnixMilli()
			mustAsk(t, s, key, limit)
			ttl := do(t, admin, "pttl", key).(int64)
			after := time.Now().UnixMilli()
			if before/period != after/period {
				continue // whose window it was charged to cannot be told
			}
			// PTTL was read in between, and is rounded.
			end := (before/period + 1) * period
			if ttl < end-after-2 || ttl > end-before+2 {
				t.Errorf("%s charge per %s: expires in %d ms, the window ended in %d ms before and in %d ms after it", charge, unit, ttl, end-before, end-after)
			}
		}
	}

	second := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Second})
	mustAsk(t, s, "second", second)
	eventually(t, "the counter of a second has gone", func() bool {
		return do(t, admin, "exists", "second").(int64) == 0
	})
}

func TestNothingIsWrittenInVain(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{URL: r.Addr(), OpTimeout: long})
	full := storetest.Must(limiter.Spec{Unit: limiter.Year})
	for _, c := range []struct {
		name string
		hits []limiter.Hit
	}{
		{"denied", []limiter.Hit{{Limit: full, Key: []byte("full"), Cost: 1}, {Limit: perYear, Key: []byte("k"), Cost: 1}}},
		{"peek", []limiter.Hit{{Limit: perYear, Key: []byte("k")}}},
		{"refund of nothing", []limiter.Hit{{Limit: perYear, Key: []byte("k"), Cost: 3, Refund: true}}},
	} {
		if _, err := s.Decide(context.Background(), c.hits, make([]limiter.Decision, len(c.hits))); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if keys := do(t, admin, "keys", "*").([]any); len(keys) != 0 {
			t.Errorf("%s: wrote %v", c.name, keys)
		}
	}
}

func TestForeignValuesCountAsUnused(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	now := time.Date(2026, 8, 1, 11, 30, 0, 0, time.UTC)
	s := open(t, Options{URL: r.Addr(), OpTimeout: long, Now: func() time.Time { return now }})
	window := now.UnixMicro() / time.Hour.Microseconds()
	hourly := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Hour})
	for _, c := range []struct {
		name    string
		command []any
		want    int64
	}{
		{"no text at all", []any{"set", "k", ""}, 1},
		{"other text", []any{"set", "k", "hello"}, 1},
		{"a number", []any{"set", "k", "5"}, 1},
		{"negative", []any{"set", "k", fmt.Sprintf("%d -5", window)}, 1},
		{"a fraction", []any{"set", "k", fmt.Sprintf("%d 5.5", window)}, 1},
		{"more than a counter holds", []any{"set", "k", fmt.Sprintf("%d 4503599627370497", window)}, 1},
		{"beyond all numbers", []any{"set", "k", fmt.Sprintf("%d %s", window, strings.Repeat("9", 400))}, 1},
		{"a window beyond all numbers", []any{"set", "k", strings.Repeat("9", 400) + " 5"}, 1},
		{"a window beyond the last", []any{"set", "k", "99999999999 5"}, 1},
		{"four numbers", []any{"set", "k", fmt.Sprintf("%d 5 6 7", window)}, 1},
		{"another type", []any{"rpush", "k", "a", "b"}, 1},
		{"a state of a window that is over", []any{"set", "k", fmt.Sprintf("%d 5", window-1)}, 1},
		{"a state", []any{"set", "k", fmt.Sprintf("%d 5", window)}, 6},
	} {
		do(t, admin, "del", "k")
		do(t, admin, c.command...)
		// The other request of the key must not notice.
		for i := range int64(2) {
			if d := mustAsk(t, s, "k", hourly); d.Used != c.want+i {
				t.Errorf("%s: %d used after %d charges, want %d", c.name, d.Used, i+1, c.want+i)
			}
		}
	}
}
