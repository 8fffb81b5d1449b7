package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// When one window follows another, Redis' clock decides, regardless of the clocks of servers. A
// window counts until its last microsecond, and then the next window starts.
func TestTheVeryChangeOfAWindow(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	var now time.Time
	set := func(to time.Time) {
		now = to
		redis.SetTime(to)
	}
	var off time.Duration
	right := open(t, Options{Main: at(redis.Addr()), local: func() time.Time { return now }})
	utc := func(month time.Month, day, hour int) time.Time {
		return time.Date(2026, month, day, hour, 0, 0, 0, time.UTC)
	}
	for name, c := range map[string]struct {
		spec   limiter.Spec
		change time.Time
		length time.Duration // length of the window that starts then
	}{
		"the day of 23 hours ends":   {limiter.Spec{Unit: limiter.Day, TimeZone: "Europe/Berlin"}, utc(3, 29, 22), 24 * time.Hour},
		"the day of 25 hours begins": {limiter.Spec{Unit: limiter.Day, TimeZone: "Europe/Berlin"}, utc(10, 24, 22), 25 * time.Hour},
		"the clocks are put back":    {limiter.Spec{Unit: limiter.Hour, TimeZone: "Europe/Berlin"}, utc(10, 25, 1), time.Hour},
		"half an hour of one":        {limiter.Spec{Unit: limiter.Hour, TimeZone: "Australia/Lord_Howe"}, utc(4, 4, 15), 30 * time.Minute},
		"two minutes":                {limiter.Spec{Unit: limiter.Minute, UnitMultiplier: 2}, utc(4, 4, 15), 2 * time.Minute},
		"February begins":            {limiter.Spec{Unit: limiter.Month}, utc(2, 1, 0), 28 * 24 * time.Hour},
		"a year begins":              {limiter.Spec{Unit: limiter.Year}, utc(1, 1, 0), 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.RequestsPerUnit, c.spec.Algorithm = 5, limiter.ByCalendar
			l := storetest.Must(c.spec)
			for _, off = range []time.Duration{
				0, time.Millisecond, -time.Millisecond, 29 * time.Second, -29 * time.Second, 31 * time.Second, -31 * time.Second,
				time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour, 31 * 24 * time.Hour, -31 * 24 * time.Hour, 400 * 24 * time.Hour, -400 * 24 * time.Hour,
			} {
				set(c.change.Add(-time.Microsecond))
				wrong := open(t, Options{Main: at(redis.Addr()), local: func() time.Time { return now.Add(off) }})
				key := fmt.Sprint(name, off)
				for _, step := range []struct {
					now  time.Time
					wait time.Duration // until the window ends
					want int           // admitted
				}{{c.change.Add(-time.Microsecond), time.Microsecond, 5}, {c.change, c.length, 5}, {c.change.Add(time.Second), c.length - time.Second, 0}} {
					set(step.now)
					admitted := 0
					for n := range 12 {
						d := mustAsk(t, []*Store{right, wrong}[n%2], key, l)
						if !d.Over {
							admitted++
						}
						if d.ResetAfter != step.wait || d.Over && d.RetryAfter != step.wait {
							t.Fatalf("%v wrong, at %v: %+v, want the window to end after %v", off, step.now, d, step.wait)
						}
					}
					if admitted != step.want {
						t.Fatalf("%v wrong, at %v: %d are admitted, want %d", off, step.now, admitted, step.want)
					}
				}
			}
		})
	}
}

// Redis' clock is read once, and again if that clock or the server's clock has stepped.
func TestClockOfRedisIsFoundOut(t *testing.T) {
	redis := miniredis.RunT(t)
	redisNow := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	redis.SetTime(redisNow)
	off := time.Duration(0)
	s := open(t, Options{Main: at(redis.Addr()), local: func() time.Time { return redisNow.Add(off) }})
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Day, Algorithm: limiter.ByCalendar})
	mustAsk(t, s, "the script is loaded", l)
	for _, step := range []struct {
		off    time.Duration
		repeat bool
	}{{0, false}, {10 * time.Second, false}, {10 * time.Hour, false}, {-13 * time.Hour, false}, {13 * time.Hour, true}, {40 * 24 * time.Hour, true}, {-40 * 24 * time.Hour, true}} {
		off = step.off
		want := 3 * 4 // EVALSHA, TIME, MGET and SET
		if step.repeat {
			want += 3 // EVALSHA, TIME and MGET
		}
		before := redis.CommandCount()
		for n := range 3 {
			mustAsk(t, s, fmt.Sprint(off, n), l)
		}
		testenv.Equal(t, redis.CommandCount()-before, want, "%v wrong: commands of three requests", off)
	}
}
