package limiter

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"weir/internal/testenv"
)

// zones are difficult time zones for calendars, each with the first of ten tested years.
var zones = []struct {
	name  string
	since int
}{
	{"UTC", 2020},
	{"Europe/Berlin", 2020},
	{"Europe/Berlin", 2037}, // beyond the last change listed in its data
	{"America/New_York", 2037},
	{"Australia/Lord_Howe", 2020}, // changes by half an hour
	{"Antarctica/Troll", 2020},    // changes by two hours
	{"America/Sao_Paulo", 2010},   // changes at midnight, which was skipped until 2018
	{"Africa/Cairo", 2020},        // changes at midnight again since 2023
	{"America/Havana", 2020},      // midnight comes twice
	{"America/St_Johns", 2003},    // changed at one minute past midnight, until 2011
	{"Asia/Tehran", 2014},
	{"Pacific/Apia", 2007},      // skipped a day, in 2011
	{"Africa/Casablanca", 2020}, // puts clocks back for a month whose date varies
	{"Asia/Pyongyang", 2012},    // changed by half an hour, at half past eleven
	{"America/Caracas", 2006},   // changed by half an hour, at half past two
	{"Asia/Kathmandu", 2020},    // 5:45 ahead of UTC
}

// shift is a span of time between two changes of a zone's clocks.
type shift struct{ from, to, ahead int64 } // from and to in seconds since the epoch, ahead in seconds ahead of UTC

// shifts finds the changes of a zone's clocks by sampling and bisection.
func shifts(zone *time.Location, from, to int64) (list []shift) {
	ahead := func(t int64) int64 {
		_, offset := time.Unix(t, 0).In(zone).Zone()
		return int64(offset)
	}
	const look = 6 * 60 * 60
	current := shift{from, 0, ahead(from)}
	for t := from; t < to; t += look {
		if ahead(t+look) == current.ahead {
			continue
		}
		low, high := t, t+look
		for high-low > 1 {
			if middle := (low + high) / 2; ahead(middle) == current.ahead {
				low = middle
			} else {
				high = middle
			}
		}
		current.to = high
		list = append(list, current)
		current = shift{high, 0, ahead(high)}
	}
	current.to = to
	return append(list, current)
}

// shownStarts returns the times that the clocks show at the starts of windows, in seconds, as if
// the clocks showed UTC.
func shownStarts(unit Unit, count int, from, to int64) (shown []int64) {
	const daySeconds = 24 * 60 * 60
	step := int64(daySeconds)
	if unit == Hour {
		step = int64(count) * 3600
	}
	for at := from/daySeconds*daySeconds - 2*daySeconds; at <= to+2*daySeconds; at += step {
		date := time.Unix(at, 0).UTC()
		switch {
		case unit == Week && date.Weekday() != time.Monday:
		case unit == Month && (date.Day() > 1 || (int(date.Month())-1)%count > 0):
		case unit == Year && date.YearDay() > 1:
		default:
			shown = append(shown, at)
		}
	}
	return shown
}

// longStarts simulates the clocks of a zone and returns the times at which they first show each
// start, or have skipped it. The first result is the start of the list.
func longStarts(list []shift, shown []int64) (starts []int64) {
	latest := int64(math.MinInt64)
	for _, s := range list {
		next, _ := slices.BinarySearch(shown, latest+1)
		for _, at := range shown[next:] {
			if at >= s.to+s.ahead {
				break
			}
			starts = append(starts, max(s.from, at-s.ahead))
		}
		latest = max(latest, s.to+s.ahead-1)
	}
	return slices.Compact(starts)
}

// shortStarts returns the starts of windows of the given length in seconds, which also start
// whenever the clocks change. The first result is the start of the list.
func shortStarts(list []shift, length int64) (starts []int64) {
	for _, s := range list {
		starts = append(starts, s.from)
		for shown := (s.from+s.ahead)/length*length + length; shown < s.to+s.ahead; shown += length {
			starts = append(starts, shown-s.ahead)
		}
	}
	return starts
}

// around returns the part of a list within fifty windows before and after time at.
func around(list []shift, at, length int64) (near []shift) {
	for _, s := range list {
		s.from, s.to = max(s.from, at-50*length), min(s.to, at+50*length)
		if s.from < s.to {
			near = append(near, s)
		}
	}
	return near
}

// Calendar windows follow their definition around every start of a window in ten years, and
// around every change of the clocks.
func TestCalendarFollowsTheZone(t *testing.T) {
	for _, z := range zones {
		june := func(year int) int64 { return time.Date(year, time.June, 1, 0, 0, 0, 0, time.UTC).Unix() }
		name, from, to := z.name, june(z.since-1), june(z.since+10)
		zone := testenv.Must(time.LoadLocation(name))(t)
		list := shifts(zone, from, to)
		changes := []int64{june(z.since)}
		for _, s := range list[1:] {
			changes = append(changes, s.from)
		}
		for _, seconds := range []int64{20, 60, 120, 1800, 3600} {
			unit, count := Second, seconds
			if seconds > 60 {
				unit, count = Minute, seconds/60
			}
			for _, change := range changes {
				checkWindows(t, name, unit, uint32(count), shortStarts(around(list, change, seconds), seconds))
			}
		}
		for _, change := range changes {
			checkWindows(t, name, Hour, 1, shortStarts(around(list, change, 3600), 3600))
		}
		for unit, counts := range map[Unit][]int{Hour: {6, 24}, Day: {1}, Week: {1}, Month: {1, 3, 12}, Year: {1}} {
			for _, count := range counts {
				checkWindows(t, name, unit, uint32(count), longStarts(list, shownStarts(unit, count, from, to)))
			}
		}
	}
}

// checkWindows checks the windows that begin at starts, except the first and the last.
func checkWindows(t *testing.T, zone string, unit Unit, count uint32, starts []int64) {
	t.Helper()
	c := testenv.Must(newCalendar(&Spec{Unit: unit, UnitMultiplier: count, TimeZone: zone}))(t)
	if len(starts) < 8 {
		t.Errorf("%s, %d %ss: there are only %d windows", zone, count, unit, len(starts))
	}
	for i := range len(starts) - 4 {
		starts := starts[i+1:]
		want := Windows{starts[0] * second, starts[1] * second, starts[2] * second}
		for _, now := range []int64{want.Start, (want.Start + want.Next) / 2, want.Start + (want.Next-want.Start)/48, want.Next - 1} {
			c.last.Store(nil) // empties the cache
			if got := c.Windows(now); got != want {
				t.Fatalf("%s, %d %ss at %v: %s, want %s", zone, count, unit, time.UnixMicro(now).In(c.zone), inZone(got, c.zone), inZone(want, c.zone))
			}
		}
	}
}

func inZone(w Windows, zone *time.Location) string {
	show := func(t int64) string { return time.UnixMicro(t).In(zone).Format(time.RFC3339) }
	return fmt.Sprint(show(w.Start), " ", show(w.Next), " ", show(w.End))
}

func micros(t *testing.T, text string) int64 {
	t.Helper()
	return testenv.Must(time.Parse(time.RFC3339, text))(t).UnixMicro()
}

// A state whose window started at a different time, according to another program's time zone data,
// counts in the current window. Otherwise two programs could keep resetting a counter.
func TestStartWithinAWindow(t *testing.T) {
	l := MustLimit(Spec{RequestsPerUnit: 5, Unit: Day, Algorithm: ByCalendar})
	now := micros(t, "2026-03-29T12:00:00Z")
	other := State{At: now/second - 3600, Used: 4}
	testenv.Equal(t, l.roll(other, now), other, "state")
	testenv.Equal(t, l.Expiry(other), micros(t, "2026-03-30T00:00:00Z"), "end")
}
