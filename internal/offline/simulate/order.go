package simulate

import (
	"math"
	"slices"
)

// clock is how far the lines of a log have come. A line that is ahead of those around it does
// not move it: those that follow would all be late.
type clock struct{ at int64 }

func newClock() clock { return clock{math.MinInt64} }

// take moves the clock by the lines of a batch, and returns those that are ahead, each with the
// time of the clock. after is the next batch, nil if there is none.
func (c *clock) take(b, after *batch) (ahead []lineTime) {
	var next []lineTime
	if after != nil {
		next = after.times
	}
	if len(b.times) == 0 {
		return nil
	}
	if !b.disordered && (len(next) == 0 || after.earliest >= b.latest-disorder) {
		c.at = max(c.at, b.latest)
		return nil
	}
	for i, t := range b.times {
		if rest := b.times[i+1:]; t.at > c.at+disorder && isAhead(t.at, rest, next) {
			ahead = append(ahead, lineTime{c.or(rest, next), t.line})
			continue
		}
		c.at = max(c.at, t.at)
	}
	return ahead
}

// isAhead reports whether most lines that follow a time are more than the allowed disorder before it.
// After a gap in a log, there is none.
func isAhead(at int64, following ...[]lineTime) bool {
	before, others := 0, 0
	for _, list := range following {
		for _, t := range list {
			if t.at < at-disorder {
				before++
			} else {
				others++
			}
		}
	}
	return before > others
}

// or returns the clock, or if no line has moved it the middle one of the times that follow.
func (c *clock) or(following ...[]lineTime) int64 {
	if c.at > math.MinInt64 {
		return c.at
	}
	var times []int64
	for _, list := range following {
		for _, t := range list {
			times = append(times, t.at)
		}
	}
	slices.Sort(times)
	return times[(len(times)-1)/2]
}

// firstOf returns the time of the first line that is not ahead, or the earliest time if there is none.
func firstOf(times []lineTime) int64 {
	for i, t := range times {
		if !isAhead(t.at, times[i+1:]) {
			return t.at
		}
	}
	return math.MinInt64
}

// move sets the times of events by their lines, and puts them in order.
func (b *batch) move(lines []lineTime) {
	for i := range b.events {
		ev := &b.events[i]
		if at, found := slices.BinarySearchFunc(lines, ev.line, func(t lineTime, line int64) int { return int(t.line - line) }); found {
			ev.at = lines[at].at - lines[at].at%1000
		}
	}
	b.sort()
}
