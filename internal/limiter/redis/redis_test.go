package redis

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func TestOneRequestIsOneCommand(t *testing.T) {
	s := newFixture(t, Options{})
	mustAsk(t, s, "warm", perYear) // connects and loads the script
	testenv.Equal(t, s.value("weir_redis_errors_total", conn.KindNoScript), 1, "counted errors of a missing script")

	var hits []limiter.Hit
	for i, spec := range []limiter.Spec{
		{}, {Algorithm: limiter.FirstHit}, {Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"}, {Algorithm: limiter.SlidingWindow}, {Algorithm: limiter.TokenBucket}, {Mode: limiter.Shadow},
	} {
		spec.RequestsPerUnit, spec.Unit = 100, limiter.Year
		hits = append(hits, hit(fmt.Sprint("counter ", i), storetest.Must(spec), 1))
	}
	before := s.commands()
	mustDecide(t, s, hits...)
	got := s.commands()
	maps.DeleteFunc(got, func(name string, n int) bool { return n == before[name] })
	for name := range got {
		got[name] -= before[name]
	}
	if want := map[string]int{"evalsha": 1, "time": 1, "mget": 1, "set": 6, "info": 1}; !maps.Equal(got, want) {
		t.Errorf("got calls of %v, want %v", got, want)
	}
}

// An existing counter is incremented, which takes Redis half the time of SET and keeps the
// expiry. Counters of requests that are not admitted together are set.
func TestKnownCountersAreIncremented(t *testing.T) {
	s, l := newFixture(t, Options{}), yearly(3_000_000)
	for i, step := range []struct {
		hit      limiter.Hit
		set, inc int
		want     int64
	}{
		{hit: hit("k", l, 1), set: 1, want: 1},
		{hit: hit("k", l, 1), inc: 1, want: 2},
		{hit: hit("k", l, 40), inc: 1, want: 42},
		{hit: refund("k", l, 2), set: 1, want: 40},
		{hit: hit("k", l, 999_959), inc: 1, want: 999_999},
		{hit: hit("k", l, 1), set: 1, want: 1_000_000}, // too large for the short form
		{hit: refund("k", l, 1), set: 1, want: 999_999},
	} {
		before := s.commands()
		out, _ := mustDecide(t, s, step.hit)
		after := s.commands()
		if set, inc := after["set"]-before["set"], after["incrby"]-before["incrby"]; set != step.set || inc != step.inc || out[0].Used != step.want {
			t.Errorf("step %d: %d SET, %d INCRBY, %d used; want %d, %d and %d", i, set, inc, out[0].Used, step.set, step.inc, step.want)
		}
		if ttl := s.do("pttl", "k").(int64); ttl <= 0 {
			t.Errorf("step %d: the counter expires in %d ms", i, ttl)
		}
	}
}

// commands returns the number of calls of each command.
func (f *fixture) commands() map[string]int {
	f.Helper()
	calls := map[string]int{}
	for line := range strings.Lines(f.do("info", "commandstats").(string)) {
		if name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			number, _, _ := strings.Cut(stats, ",")
			calls[name] = testenv.Must(strconv.Atoi(number))(f)
		}
	}
	return calls
}

// A counter expires at the end of its window or shortly after it, never before it.
func TestCountersExpireWithTheirWindow(t *testing.T) {
	s := newFixture(t, Options{})
	for _, unit := range []limiter.Unit{limiter.Minute, limiter.Day, limiter.Year} {
		limit := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: unit})
		period := unit.Duration().Milliseconds()
		for n := range 50 { // at different fractions of a millisecond
			key := fmt.Sprint(unit, n)
			began := time.Now()
			for _, charge := range []string{"first", "second"} {
				mustAsk(t, s, key, limit)
				took := time.Since(began).Milliseconds() + 1
				// Both times are from Redis' clock, so steps of the clock make no difference.
				expires := testenv.Must(s.admin.PExpireTime(t.Context(), key).Result())(t)
				state := testenv.Must(s.admin.Get(t.Context(), key).Int64())(t)
				end := (state/1_000_000 + 1) * period
				if late := expires.Milliseconds() - end; late < 0 || late > took {
					t.Errorf("%s charge per %s: expires %d ms after its window, the call took %d ms", charge, unit, late, took)
				}
			}
		}
	}
}

// A counter expires when it equals an unused counter, rounded up to a millisecond.
func TestExpiry(t *testing.T) {
	start := time.UnixMicro(1_767_323_045_678_900) // 54.3211 s before a full minute
	minute := limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Minute}
	firstHit, sliding, bucket := minute, minute, minute
	firstHit.Algorithm, sliding.Algorithm, bucket.Algorithm = limiter.FirstHit, limiter.SlidingWindow, limiter.TokenBucket
	log := minute
	log.Algorithm = limiter.SlidingLog
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
		{"sliding log", log, []expiryStep{{0, 1, 60_000}, {10 * time.Second, 2, 60_000}, {20 * time.Second, -1, 50_000}, {65 * time.Second, 1, 60_000}, {66 * time.Second, -9, 0}}},
		{"sliding log, the clock steps back", log, []expiryStep{{10 * time.Second, 1, 60_000}, {0, 1, 60_000}, {5 * time.Second, 1, 60_000}}},
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

// expiryStep charges units, or refunds them if they are negative.
type expiryStep struct {
	at    time.Duration
	units int
	want  int64 // milliseconds until the counter expires, 1 if it is unused
}

// checkExpiry decides each step alone and, in a second run, together with a peek, so that another
// part of the script decides it.
func checkExpiry(t *testing.T, start time.Time, limit *limiter.Limit, steps []expiryStep) {
	t.Helper()
	for _, alone := range []bool{true, false} {
		r := miniredis.RunT(t) // its time passes only by FastForward
		now := start
		s := open(t, Options{Main: at(r.Addr()), Now: func() time.Time { return now }})
		for i, step := range steps {
			r.FastForward(start.Add(step.at).Sub(now))
			now = start.Add(step.at)
			hits := []limiter.Hit{hit("k", limit, uint64(max(step.units, -step.units))), hit("peek", perYear, 0)}
			hits[0].Refund = step.units < 0
			if alone {
				hits = hits[:1]
			}
			mustDecide(t, s, hits...)
			testenv.Equal(t, r.TTL("k"), time.Duration(step.want)*time.Millisecond, "step %d at %v, alone %t: expires in", i, step.at, alone)
		}
	}
}

func TestNothingIsWrittenInVain(t *testing.T) {
	s := newFixture(t, Options{})
	for name, hits := range map[string][]limiter.Hit{
		"denied":            {hit("full", yearly(0), 1), hit("k", perYear, 1)},
		"peek":              {hit("k", perYear, 0)},
		"refund of nothing": {refund("k", perYear, 3)},
	} {
		mustDecide(t, s, hits...)
		if keys := s.do("keys", "*").([]any); len(keys) != 0 {
			t.Errorf("%s: wrote %v", name, keys)
		}
	}
}

// A value that is no state of the counter counts as unused, and the first charge replaces it.
func TestForeignValuesCountAsUnused(t *testing.T) {
	now := time.Now()
	s := newFixture(t, Options{Now: func() time.Time { return now }})
	window := now.UnixMicro() / (365 * 24 * time.Hour).Microseconds()
	yearly, holds := yearly(100), atOncePerHour(3)
	log := storetest.Must(limiter.Spec{RequestsPerUnit: 4, Unit: limiter.Hour, Algorithm: limiter.SlidingLog, DenyFor: time.Minute})
	for _, c := range []struct {
		name    string
		limit   *limiter.Limit
		command []any
		want    int64 // units used before
	}{
		{"other text", yearly, []any{"set", "k", "hello"}, 0},
		{"negative", yearly, []any{"set", "k", fmt.Sprintf("%d -5", window)}, 0},
		{"more than a counter holds", yearly, []any{"set", "k", fmt.Sprintf("%d 4503599627370497", window)}, 0},
		{"a window beyond all numbers", yearly, []any{"set", "k", strings.Repeat("9", 400) + " 5"}, 0},
		{"four numbers", yearly, []any{"set", "k", fmt.Sprintf("%d 5 6 7", window)}, 0},
		{"another type", yearly, []any{"rpush", "k", "a", "b"}, 0},
		{"a state of a window that is over", yearly, []any{"set", "k", fmt.Sprintf("%d 5", window-1)}, 0},
		{"a window beyond the last in one number", yearly, []any{"set", "k", "9000000000000005"}, 0},
		{"a negative number", yearly, []any{"set", "k", fmt.Sprintf("-%d000005", window)}, 0},
		{"a number in other words", yearly, []any{"set", "k", "0x5"}, 0},
		{"no number", yearly, []any{"set", "k", "nan"}, 0},
		{"a state", yearly, []any{"set", "k", fmt.Sprintf("%d 5", window)}, 5},
		{"a state in one number that Redis cannot increment", yearly, []any{"set", "k", fmt.Sprintf("0%d000005", window)}, 5},
		{"a state in one number", yearly, []any{"set", "k", fmt.Sprintf("%d000005", window)}, 5},

		{"a text for holds", holds, []any{"set", "k", "hello"}, 0},
		{"a list for holds", holds, []any{"rpush", "k", "a", "b"}, 0},
		{"a hash for holds", holds, []any{"hset", "k", "a", "b"}, 0},
		{"holds beyond all times", holds, []any{"zadd", "k", "1e300", "a"}, 0},
		{"holds at the end of time", holds, []any{"zadd", "k", "+inf", "a", "1", "b"}, 0},
		{"holds before all times", holds, []any{"zadd", "k", "-inf", "a", "-5", "b"}, 0},
		{"holds that ended long ago", holds, []any{"zadd", "k", "5", "a", "5.5", "b"}, 0},
		{"names of any length", holds, []any{"zadd", "k", fmt.Sprint(now.Add(time.Minute).UnixMicro()), "a"}, 1},
		{"times with a fraction", holds, []any{"zadd", "k", fmt.Sprintf("%d.5", now.Add(time.Minute).UnixMicro()), "a"}, 1},
		{"later than a period from now", holds, []any{"zadd", "k", fmt.Sprint(now.Add(1000 * time.Hour).UnixMicro()), "a"}, 1},

		{"a text for a log", log, []any{"set", "k", "hello"}, 0},
		{"a hash for a log", log, []any{"hset", "k", "a", "b"}, 0},
		{"a log of no times", log, []any{"rpush", "k", "a", "b"}, 0},
		{"a log before all times", log, []any{"rpush", "k", "-1e300", "-5"}, 0},
		{"a log beyond all times", log, []any{"rpush", "k", "1e300"}, 1},
		{"a ban that is over", log, []any{"rpush", "k", -now.Add(-time.Second).UnixMicro(), now.UnixMicro()}, 1},
	} {
		s.do("del", "k")
		s.do(c.command...)
		// The second charge must see the first.
		for i, h := range []limiter.Hit{hit("k", c.limit, 0), hit("k", c.limit, 1), hit("k", c.limit, 1), refund("k", c.limit, 1)} {
			if c.limit == holds {
				h.Hold = holding("k", holds, min(i, 2), false).Hold
			}
			want := c.want + []int64{0, 1, 2, 1}[i]
			if out, denied := mustDecide(t, s, h); denied || out[0].Already || out[0].Used != want || out[0].ResetAfter > c.limit.Period() {
				t.Errorf("%s, request %d: denied is %v, %+v, want %d used", c.name, i, denied, out[0], want)
			}
		}
		if ttl := s.do("pttl", "k").(int64); c.limit != yearly && (ttl <= 0 || ttl > c.limit.Period().Milliseconds()) { // INCRBY keeps the expiry
			t.Errorf("%s: it expires in %d ms", c.name, ttl)
		}
	}
}

// A counter takes little memory. Redis stores most windows as integers, which take the least.
// Both forms are read as they were written.
func TestMemoryOfACounter(t *testing.T) {
	s := newFixture(t, Options{})
	year := func(l limiter.Spec) *limiter.Limit {
		l.Unit, l.RequestsPerUnit = limiter.Year, 2_000_000
		return storetest.Must(l)
	}
	for _, c := range []struct {
		name  string
		limit *limiter.Limit
		cost  uint64
		most  int64 // bytes, without the expiry
	}{
		{"a window", year(limiter.Spec{}), 1, 80},
		{"a full window", year(limiter.Spec{}), 999_999, 80},
		{"a window of millions", year(limiter.Spec{}), 1_000_000, 110},
		{"a window of a calendar", year(limiter.Spec{Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"}), 999_999, 80},
		{"a sliding window", year(limiter.Spec{Algorithm: limiter.SlidingWindow}), 1, 80},
		{"a window of its own", year(limiter.Spec{Algorithm: limiter.FirstHit}), 1, 110},
		{"a bucket", year(limiter.Spec{Algorithm: limiter.TokenBucket}), 7, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			const key = "w1|api|user=alice|1m"
			s.do("del", key)
			for _, cost := range []uint64{c.cost, 0} {
				if out, _ := mustDecide(t, s, hit(key, c.limit, cost)); uint64(out[0].Used) != c.cost {
					t.Errorf("cost %d: %d used, want %d", cost, out[0].Used, c.cost)
				}
			}
			if got := s.do("memory", "usage", key).(int64); got > c.most {
				t.Errorf("it takes %d bytes, want at most %d", got, c.most)
			}
		})
	}
}
