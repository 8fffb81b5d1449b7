package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func TestOneRequestIsOneCommand(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{Main: at(r.Addr())})
	mustAsk(t, s, "warm", perYear) // connects and loads the script

	var hits []limiter.Hit
	for i, spec := range []limiter.Spec{
		{}, {Algorithm: limiter.FirstHit}, {Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"}, {Algorithm: limiter.SlidingWindow}, {Algorithm: limiter.TokenBucket}, {Mode: limiter.Shadow},
	} {
		spec.RequestsPerUnit, spec.Unit = 100, limiter.Year
		hits = append(hits, limiter.Hit{Limit: storetest.Must(spec), Key: fmt.Append(nil, "counter ", i), Cost: 1})
	}
	before := commandCalls(t, admin)
	if _, err := s.Decide(context.Background(), hits, make([]limiter.Decision, len(hits))); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	got := commandCalls(t, admin)
	for name := range got {
		got[name] -= before[name]
	}
	for name, want := range map[string]int{"evalsha": 1, "time": 1, "mget": 1, "set": 6, "info": 1} {
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
}

// A counter that lives on is incremented, which takes Redis half as long as to
// set it, and does not touch its expiry. What is not admitted together with others is set.
func TestKnownCountersAreIncremented(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{Main: at(r.Addr())})
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 3_000_000, Unit: limiter.Year})
	for i, step := range []struct {
		hit      limiter.Hit
		set, inc int
		want     int64
	}{
		{hit: hit("k", l, 1), set: 1, want: 1},
		{hit: hit("k", l, 1), inc: 1, want: 2},
		{hit: hit("k", l, 40), inc: 1, want: 42},
		{hit: limiter.Hit{Limit: l, Key: []byte("k"), Cost: 2, Refund: true}, set: 1, want: 40},
		{hit: hit("k", l, 999_959), inc: 1, want: 999_999},
		{hit: hit("k", l, 1), set: 1, want: 1_000_000}, // which is no short state any more
		{hit: limiter.Hit{Limit: l, Key: []byte("k"), Cost: 1, Refund: true}, set: 1, want: 999_999},
	} {
		before := commandCalls(t, admin)
		out := make([]limiter.Decision, 1)
		testenv.Must(s.Decide(t.Context(), []limiter.Hit{step.hit}, out))(t)
		after := commandCalls(t, admin)
		if set, inc := after["set"]-before["set"], after["incrby"]-before["incrby"]; set != step.set || inc != step.inc || out[0].Used != step.want {
			t.Errorf("step %d: %d SET, %d INCRBY, %d used; want %d, %d and %d", i, set, inc, out[0].Used, step.set, step.inc, step.want)
		}
		if ttl := do(t, admin, "pttl", "k").(int64); ttl <= 0 {
			t.Errorf("step %d: the counter expires in %d ms", i, ttl)
		}
	}
}

// TestWithoutIncrementsCountersAreSet has a user who may not run INCRBY: it decides the same.
func TestWithoutIncrementsCountersAreSet(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{Main: at(r.Addr())})
	do(t, admin, "acl", "setuser", "default", "-incrby")
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Year})
	request := []limiter.Hit{hit("a", l, 1), hit("b", l, 2), hit("c", l, 3)}
	out := make([]limiter.Decision, len(request))
	for i := range int64(3) {
		if denied, err := s.Decide(t.Context(), request, out); denied || err != nil {
			t.Fatalf("denied: %t, error: %v", denied, err)
		}
		for h := range out {
			if want := (i + 1) * int64(request[h].Cost); out[h].Used != want {
				t.Errorf("request %d: %d used of %s, want %d", i, out[h].Used, request[h].Key, want)
			}
		}
	}
}

// commandCalls returns how often each command was called.
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

// A counter never expires before the end of its window, and hardly later.
func TestCountersExpireWithTheirWindow(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{Main: at(r.Addr())})
	for _, unit := range []limiter.Unit{limiter.Minute, limiter.Day, limiter.Year} {
		limit := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: unit})
		period := unit.Duration().Milliseconds()
		for n := range 50 { // at as many moments of a millisecond
			key := fmt.Sprint(unit, n)
			began := time.Now()
			for _, charge := range []string{"first", "second"} {
				mustAsk(t, s, key, limit)
				took := time.Since(began).Milliseconds() + 1
				// Both are by Redis' clock. A clock that steps meanwhile makes no difference.
				expires := testenv.Must(admin.PExpireTime(t.Context(), key).Result())(t)
				state := testenv.Must(admin.Get(t.Context(), key).Int64())(t)
				end := (state/million + 1) * period
				if late := expires.Milliseconds() - end; late < 0 || late > took {
					t.Errorf("%s charge per %s: expires %d ms after its window, the call took %d ms", charge, unit, late, took)
				}
			}
		}
	}
}

// A counter expires when it is as good as unused, to the millisecond above.
func TestExpiry(t *testing.T) {
	start := time.UnixMicro(1_767_323_045_678_900) // 54.3211 s before a full minute
	minute := limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Minute}
	firstHit, sliding, bucket := minute, minute, minute
	firstHit.Algorithm, sliding.Algorithm, bucket.Algorithm = limiter.FirstHit, limiter.SlidingWindow, limiter.TokenBucket
	inSevenths := bucket
	inSevenths.RequestsPerUnit = 7
	inMillis := limiter.Spec{RequestsPerUnit: 1_000_000, Unit: limiter.Day, Algorithm: limiter.SlidingWindow}

	for _, c := range []struct {
		name  string
		spec  limiter.Spec
		steps []expiryStep
	}{
		{"fixed window", minute, []expiryStep{
			{0, 1, 54_322}, {10 * time.Second, 1, 44_322}, {20 * time.Second, -1, 34_322}, {20 * time.Second, -1, 1},
			{54 * time.Second, 1, 322}, {54_321_100 * time.Microsecond, 1, 60_000},
		}},
		{"first hit", firstHit, []expiryStep{{0, 1, 60_000}, {10 * time.Second, 1, 50_000}, {20 * time.Second, -2, 1}, {30 * time.Second, 1, 60_000}}},
		{"day of a calendar", limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Day, Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"}, []expiryStep{
			{0, 1, 71_754_322}, {10 * time.Second, 1, 71_744_322}, {20 * time.Second, -2, 1}, {20 * time.Hour, 1, 86_154_322}, {time.Second, 1, 71_753_322},
		}},
		{"sliding window", sliding, []expiryStep{
			{0, 1, 114_322}, {10 * time.Second, 3, 104_322}, {54_321_100 * time.Microsecond, 1, 120_000},
			{60 * time.Second, -1, 54_322}, {60 * time.Second, 1, 114_322},
		}},
		{"sliding window in milliseconds", inMillis, []expiryStep{{0, 1, 75_354_322 + 86_400_000}}},
		{"token bucket", bucket, []expiryStep{
			{0, 1, 6000}, {0, 1, 12_000}, {500 * time.Microsecond, 1, 18_000}, {17 * time.Second, -1, 1}, {17 * time.Second, 2, 12_000}, {20 * time.Second, -1, 3000},
		}},
		{"token bucket in parts of a microsecond", inSevenths, []expiryStep{{0, 1, 8572}, {time.Second, 1, 16_143}}},

		{"fixed window, the clock steps back within it", minute, []expiryStep{{10 * time.Second, 1, 44_322}, {0, 1, 54_322}, {20 * time.Second, 1, 34_322}}},
		{"fixed window, the clock steps back out of it", minute, []expiryStep{{time.Minute, 1, 54_322}, {50 * time.Second, 1, 4322}, {-time.Hour, 1, 54_322}}},
		{"fixed window, all are denied after the clock stepped back", minute, []expiryStep{{time.Minute, 10, 54_322}, {0, 1, 54_322}, {10 * time.Second, 1, 44_322}}},
		{"first hit, the clock steps back", firstHit, []expiryStep{{10 * time.Second, 1, 60_000}, {20 * time.Second, 1, 50_000}, {15 * time.Second, 1, 55_000}, {0, 1, 60_000}, {5 * time.Second, 1, 55_000}}},
		{"sliding window, the clock steps back", sliding, []expiryStep{{0, 1, 114_322}, {time.Minute, 1, 114_322}, {55 * time.Second, 1, 119_322}, {0, 1, 114_322}, {10 * time.Second, -3, 104_322}, {20 * time.Second, -1, 1}}},
		{"token bucket, the clock steps back", bucket, []expiryStep{{time.Hour, 1, 6000}, {time.Hour - time.Second, 1, 12_000}, {0, 9, 12_000}, {6 * time.Second, -1, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) { checkExpiry(t, start, storetest.Must(c.spec), c.steps) })
	}
}

// expiryStep takes units, or gives them back if they are negative.
type expiryStep struct {
	at    time.Duration
	units int
	want  int64 // milliseconds that the counter has left then, 1 if it is unused
}

func checkExpiry(t *testing.T, start time.Time, limit *limiter.Limit, steps []expiryStep) {
	t.Helper()
	r := miniredis.RunT(t) // where no time passes by itself
	now := start
	s := open(t, Options{Main: at(r.Addr()), Now: func() time.Time { return now }})
	for i, step := range steps {
		r.FastForward(start.Add(step.at).Sub(now))
		now = start.Add(step.at)
		hit := limiter.Hit{Limit: limit, Key: []byte("k"), Cost: uint64(max(step.units, -step.units)), Refund: step.units < 0}
		if _, err := s.Decide(context.Background(), []limiter.Hit{hit}, make([]limiter.Decision, 1)); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := r.TTL("k"); got != time.Duration(step.want)*time.Millisecond {
			t.Errorf("step %d at %v: expires in %v, want %d ms", i, step.at, got, step.want)
		}
	}
}

func TestNothingIsWrittenInVain(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	s := open(t, Options{Main: at(r.Addr())})
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
	s := open(t, Options{Main: at(r.Addr()), Now: func() time.Time { return now }})
	window := now.UnixMicro() / time.Hour.Microseconds()
	hourly := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Hour})
	for _, c := range []struct {
		name    string
		command []any
		want    int64
	}{
		{"other text", []any{"set", "k", "hello"}, 1},
		{"negative", []any{"set", "k", fmt.Sprintf("%d -5", window)}, 1},
		{"more than a counter holds", []any{"set", "k", fmt.Sprintf("%d 4503599627370497", window)}, 1},
		{"a window beyond all numbers", []any{"set", "k", strings.Repeat("9", 400) + " 5"}, 1},
		{"four numbers", []any{"set", "k", fmt.Sprintf("%d 5 6 7", window)}, 1},
		{"another type", []any{"rpush", "k", "a", "b"}, 1},
		{"a state of a window that is over", []any{"set", "k", fmt.Sprintf("%d 5", window-1)}, 1},
		{"a window beyond the last in one number", []any{"set", "k", "9000000000000005"}, 1},
		{"a negative number", []any{"set", "k", fmt.Sprintf("-%d000005", window)}, 1},
		{"a number in other words", []any{"set", "k", "0x5"}, 1},
		{"no number", []any{"set", "k", "nan"}, 1},
		{"a state", []any{"set", "k", fmt.Sprintf("%d 5", window)}, 6},
		{"a state in one number that Redis cannot increment", []any{"set", "k", fmt.Sprintf("0%d000005", window)}, 6},
		{"a state in one number", []any{"set", "k", fmt.Sprintf("%d000005", window)}, 6},
	} {
		do(t, admin, "del", "k")
		do(t, admin, c.command...)
		peek := []limiter.Hit{{Limit: hourly, Key: []byte("k")}}
		out := make([]limiter.Decision, 1)
		if _, err := s.Decide(t.Context(), peek, out); err != nil || out[0].Used != c.want-1 {
			t.Errorf("%s: %d used before any charge, error %v, want %d", c.name, out[0].Used, err, c.want-1)
		}
		// The other request of the key must not notice.
		for i := range int64(2) {
			if d := mustAsk(t, s, "k", hourly); d.Used != c.want+i {
				t.Errorf("%s: %d used after %d charges, want %d", c.name, d.Used, i+1, c.want+i)
			}
		}
	}
}
