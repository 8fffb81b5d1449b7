package limiter

import (
	"bytes"
	"time"
)

// MaxNotify is the maximum length of Spec.Notify, and MinNotified the shortest period of such a
// limit.
const (
	MaxNotify   = 5
	MinNotified = time.Minute
)

// IsBudget reports whether operators see the use of the limit's counters: whether the limit
// notifies operators, or its period is an hour or more. An override with a period shorter than
// MinNotified may have the Notify of the rule's limit. It is not a budget.
func (s *Spec) IsBudget() bool {
	period := s.Period()
	return (period >= time.Hour || s.Notify != nil && period >= MinNotified) && s.RequestsPerUnit > 0 && s.Algorithm != Concurrency
}

// Passed returns the used percentages of the counter of hits[i] before and after a decided
// request, rounded down. They are equal if the request did not change the use, or if an earlier
// hit is on the same counter, so that only one of several hits passes a threshold.
func Passed(hits []Hit, out []Decision, i int) (before, after int64) {
	h, used, taken := &hits[i], out[i].Used, int64(0)
	for j := range hits {
		other := &hits[j]
		switch {
		case other.Limit != h.Limit || !bytes.Equal(other.Key, h.Key):
		case j < i:
			return 0, 0
		case other.settles():
			if !out[j].Already {
				taken += other.CountedCost() - out[j].Reserved
			}
		case other.Refund && out[j].Charged:
			taken -= other.CountedCost()
		case out[j].Charged:
			taken += other.CountedCost()
		}
	}
	size := int64(h.Limit.Size())
	if after = used * 100 / size; taken > used { // a failure mode admitted the hits without counting them
		return after, after
	}
	return (used - taken) * 100 / size, after
}

// Window returns the start and end of the current window of a counter of l that becomes unused
// after the time left. now may differ from the time of the store by up to a quarter of a window,
// unless l has bans. If the algorithm has no windows, start is zero, and end is the time at which
// the counter becomes unused.
func (l *Limit) Window(now time.Time, left time.Duration) (start, end time.Time) {
	period := l.Period()
	within := now.Add(left - period/4)
	w, hasWindows := l.counting.(fixedWindow)
	if hasWindows && l.DenyFor > 0 { // left may be the rest of a ban
		within, left = now, min(left, period)
	}
	switch {
	case w.calendar != nil:
		of := w.calendar.Windows(within.UnixMicro())
		return time.UnixMicro(of.Start).In(w.calendar.zone), time.UnixMicro(of.Next).In(w.calendar.zone)
	case w.grid > 1:
		start = time.UnixMicro(within.UnixMicro() / w.grid * w.grid).UTC()
		return start, start.Add(period)
	}
	end = now.Add(left).UTC()
	if hasWindows { // from the first hit on
		start = end.Add(-period)
	}
	return start, end
}
