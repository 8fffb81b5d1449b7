package main

import (
	"fmt"
	"slices"
	"time"
)

// bin is the span of time that a bar covers.
const bin = 2 * time.Second

// admittedPicture shows the part of the load that each limit admits.
func admittedPicture(string) []byte {
	list := subjects(loadAmount)
	c := newChart("Requests admitted by each algorithm under the same load", loadBegin, loadEnd, len(list))
	next := c.legend(marginLeft, colorSent, "", "sent in 2 seconds")
	c.legend(next, colorAdmitted, "", "admitted in 2 seconds")
	for i, s := range list {
		admitted := run(s.limit, load())
		p := c.panel(i, fmt.Sprintf("%s: %d of %d admitted", s.title, len(admitted), len(load())), 20, 10)
		p.bars(bins(load()), bin, colorSent)
		p.bars(bins(admitted), bin, colorAdmitted)
	}
	return c.finish()
}

// bins counts the times in each bin.
func bins(times []time.Duration) []int {
	counts := make([]int, (loadEnd-loadBegin)/bin)
	for _, t := range times {
		counts[(t-loadBegin)/bin]++
	}
	return counts
}

// lastMinutePicture shows the number of requests that each limit admitted in the last minute.
func lastMinutePicture(string) []byte {
	list := subjects(loadAmount)
	c := newChart("Requests admitted in the last minute under the same load", loadBegin, loadEnd, len(list))
	next := c.legend(marginLeft, colorAdmitted, "", "admitted in the minute before")
	c.legend(next, colorLimit, "4 3", fmt.Sprintf("the limit, %d per minute", loadAmount))
	for i, s := range list {
		admitted := run(s.limit, load())
		peak := slices.Max(within(time.Minute, admitted))
		p := c.panel(i, fmt.Sprintf("%s: at most %d in a minute", s.title, peak), 130, 60)
		p.curve(lastMinute(admitted), time.Second/2, colorAdmitted)
		c.line(marginLeft, p.y(loadAmount), chartWidth-marginRight, p.y(loadAmount), colorLimit, "4 3")
	}
	return c.finish()
}

// lastMinute returns, for every half second, the number of times in the minute before it.
func lastMinute(times []time.Duration) []int {
	var counts []int
	for t := loadBegin; t <= loadEnd; t += time.Second / 2 {
		n := 0
		for _, at := range times {
			if t-time.Minute < at && at <= t {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}
