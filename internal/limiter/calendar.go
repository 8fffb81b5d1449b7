package limiter

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Calendar divides time into the windows of a calendar: the hours, days or months that the clocks
// of a time zone show.
//
// Windows of up to an hour begin at full minutes and hours, and whenever the clocks change: an
// hour that is shown twice is two windows, and the rest of a partly skipped hour is one window.
//
// Longer windows begin when the clocks show their beginning, or a later time, for the first
// time. So a day has 23 or 25 hours when the clocks change, begins at 01:00 where midnight is
// skipped, and has no window if it is skipped altogether.
type Calendar struct {
	zone  *time.Location
	unit  Unit
	count int
	last  atomic.Pointer[Windows] // the last windows returned, as a cache
}

// Windows are two windows, [Start, Next) and [Next, End), in microseconds since the epoch.
type Windows struct{ Start, Next, End int64 }

// onCalendar has a row for each unit. parts is the number of units in the next larger unit, or 1 if that
// number varies. The other fields give the length of the unit, for windows of more than an hour.
var onCalendar = [...]struct{ parts, years, months, days, hours int }{
	Second: {parts: 60},
	Minute: {parts: 60},
	Hour:   {parts: 24, hours: 1},
	Day:    {parts: 1, days: 1},
	Week:   {parts: 1, days: 7},
	Month:  {parts: 12, months: 1},
	Year:   {parts: 1, years: 1},
}

type calendarOf struct {
	zone  string
	unit  Unit
	count uint32
}

// calendars caches every Calendar that rules have used, because time zone data is large and slow to
// load, and many rules may share a Calendar. There are only a few hundred zones.
var calendars sync.Map // calendarOf -> *Calendar

// newCalendar returns the calendar of s. It fails if the time zone is unknown, or if windows of
// UnitMultiplier units do not divide the next larger unit evenly.
func newCalendar(s *Spec) (*Calendar, error) {
	of := calendarOf{s.TimeZone, s.Unit, max(s.UnitMultiplier, 1)}
	if c, known := calendars.Load(of); known {
		return c.(*Calendar), nil
	}
	if parts := onCalendar[s.Unit].parts; parts%int(of.count) != 0 {
		var divisors []string
		for i := 1; i <= parts; i++ {
			if parts%i == 0 {
				divisors = append(divisors, fmt.Sprint(i))
			}
		}
		return nil, fmt.Errorf("windows of %s do not divide the calendar evenly, allowed values of unit_multiplier with algorithm calendar are %s", s.Per(), strings.Join(divisors, ", "))
	}
	zone, err := time.LoadLocation(of.zone)
	// The local zone is refused, because it may differ between servers.
	if err != nil || of.zone == "Local" || of.zone == "localtime" {
		return nil, fmt.Errorf("%w %q; use a name of the IANA database, such as UTC or Europe/Berlin", ErrTimeZone, of.zone)
	}
	c, _ := calendars.LoadOrStore(of, &Calendar{zone: zone, unit: s.Unit, count: int(of.count)})
	return c.(*Calendar), nil
}

// ErrTimeZone means that a time zone is unknown.
var ErrTimeZone = errors.New("unknown time zone")

// Windows returns the window that contains now, and the next one.
func (c *Calendar) Windows(now int64) Windows {
	if w := c.last.Load(); w != nil && w.Start <= now && now < w.Next {
		return *w
	}
	start, next := c.window(now / second)
	_, end := c.window(next)
	w := &Windows{max(start, 0) * second, next * second, end * second}
	c.last.Store(w)
	return *w
}

// window returns the start and end of the window that contains now. All three are in seconds
// since the epoch.
func (c *Calendar) window(now int64) (start, end int64) {
	if c.unit < Hour || c.unit == Hour && c.count == 1 {
		return c.shortWindow(now)
	}
	begin, step := c.begin(time.Unix(now, 0).In(c.zone)), onCalendar[c.unit]
	for {
		next := begin.AddDate(step.years, step.months*c.count, step.days).Add(time.Duration(step.hours*c.count) * time.Hour)
		if end = c.first(next.Unix()); end > now {
			return c.first(begin.Unix()), end
		}
		begin = next // the clocks showed the start of next, and then were put back
	}
}

// begin returns the clock time at the start of t's window, as if the clocks showed UTC. The clocks
// may skip this clock time.
func (c *Calendar) begin(t time.Time) time.Time {
	year, month, day := t.Date()
	hour := 0
	switch c.unit {
	case Hour:
		hour = t.Hour() - t.Hour()%c.count
	case Week:
		day -= (int(t.Weekday()) + 6) % 7 // to Monday
	case Month:
		month, day = month-(month-1)%time.Month(c.count), 1
	case Year:
		month, day = time.January, 1
	}
	return time.Date(year, month, day, hour, 0, 0, 0, time.UTC)
}

// first returns the earliest time at which the clocks show a given time or a later one. shown is
// the given time, as if the clocks showed UTC.
func (c *Calendar) first(shown int64) int64 {
	const day = 24 * 60 * 60 // more than any zone differs from UTC
	before, after := shown-day, shown+day
	ahead := c.ahead(before)
	if ahead == c.ahead(after) {
		return shown - ahead
	}
	change := c.change(before, after)
	if shown-ahead < change {
		return shown - ahead
	}
	return max(change, shown-c.ahead(change))
}

// shortWindow is window for windows of up to an hour, which changes of the clocks may shorten but
// never extend.
func (c *Calendar) shortWindow(now int64) (start, end int64) {
	length, ahead := int64(c.unit.Duration()/time.Second)*int64(c.count), c.ahead(now)
	start = now - ((now+ahead)%length+length)%length
	end = start + length
	if c.ahead(start) != ahead {
		start = c.change(start, now)
	}
	if c.ahead(end-1) != ahead {
		end = c.change(now, end-1)
	}
	return start, end
}

// ahead returns the number of seconds by which the clocks are ahead of UTC at t.
func (c *Calendar) ahead(t int64) int64 {
	_, offset := time.Unix(t, 0).In(c.zone).Zone()
	return int64(offset)
}

// change returns the time between from and to at which the clocks change, which must happen exactly
// once. from and to are at most two days apart. Time.ZoneBounds cannot replace change: it is wrong
// about the last day of some years.
func (c *Calendar) change(from, to int64) int64 {
	ahead := c.ahead(from)
	return from + int64(sort.Search(int(to-from), func(i int) bool { return c.ahead(from+int64(i)) != ahead }))
}
