package memory

import (
	"sync/atomic"
	"time"
)

// clock returns the time by which counters are kept. It starts with the wall's time
// and goes on with what passes, whatever is done to the clock on the wall: a step
// there neither admits nor denies anything here. So that windows end at full hours
// and days again some time after a step, or after the machine has slept, it follows
// the wall by a hundredth of what passes: by an hour in a little over four days, in
// which a minute takes 59.4 or 60.6 seconds.
//
// It never goes back, and readings take no lock.
type clock struct {
	wall   func() time.Time
	passed func() time.Duration // since the clock began, which no step changes
	course atomic.Pointer[course]
	next   atomic.Int64 // what will have passed when it looks at the wall again
}

const (
	slew     = 100
	look     = time.Second      // how often it looks at the wall
	accurate = time.Millisecond // what it takes for no step: both times are not read at once
)

// course is how the clock goes on from some point, until it meets the wall.
type course struct {
	from   time.Duration // what had passed then
	time   int64         // then, in microseconds since the epoch
	off    time.Duration // by how much the wall was ahead then
	before *course       // until then
}

// newClock returns a clock that begins now.
func newClock(wall func() time.Time, passed func() time.Duration) *clock {
	c := &clock{wall: wall, passed: passed}
	c.course.Store(&course{from: passed(), time: wall().UnixMicro()})
	return c
}

// systemClock follows the clock of the machine.
func systemClock() *clock {
	began := time.Now()
	return newClock(time.Now, func() time.Duration { return time.Since(began) })
}

// now is the time in microseconds since the epoch.
func (c *clock) now() int64 {
	passed := c.passed()
	if next := c.next.Load(); int64(passed) >= next && c.next.CompareAndSwap(next, int64(passed+look)) {
		c.look()
	}
	return c.course.Load().at(passed)
}

// look changes the course if the wall's clock has stepped. The new one begins a
// moment later, so that nobody who is just reading the clock is behind it.
func (c *clock) look() {
	going := c.course.Load()
	passed, wall := c.passed(), c.wall()
	from := passed + look
	at := going.at(from)
	off := wall.Add(look).Sub(time.UnixMicro(at))
	if expected := going.off - going.followed(from-going.from); (off - expected).Abs() > accurate {
		until := *going
		until.before = nil
		c.course.Store(&course{from, at, off, &until})
	}
}

// at is the time when so much has passed.
func (g *course) at(passed time.Duration) int64 {
	if passed < g.from && g.before != nil {
		return g.before.at(passed)
	}
	passed -= g.from
	return g.time + (passed + g.followed(passed)).Microseconds()
}

// followed is by how much the clock has followed the wall when so much has passed
// on this course.
func (g *course) followed(passed time.Duration) time.Duration {
	return min(max(g.off, -passed/slew), passed/slew)
}
