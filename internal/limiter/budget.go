package limiter

import "time"

// MaxNotify is the maximum length of Spec.Notify. MinNotified is the shortest period of a limit
// with Notify.
const (
	MaxNotify   = 5
	MinNotified = time.Minute
)

// IsBudget reports whether the limit is a budget, a limit whose use operators can see: it has Notify or a
// period of at least an hour, admits something and does not count by Concurrency. An override may have the
// rule's Notify but a period shorter than MinNotified; then it is not a budget.
func (s *Spec) IsBudget() bool {
	period := s.Period()
	return (period >= time.Hour || s.Notify != nil && period >= MinNotified) && s.RequestsPerUnit > 0 && s.Algorithm != Concurrency
}

// Taken returns, for each hit of a decided request, the units that the request took from the hit's
// counter, less its refunds. If several hits are on one counter, the first gets all units and the
// others get 0, so only one of them can pass a threshold. Taken reuses the memory of dst.
func Taken(hits []Hit, out []Decision, dst []int64) []int64 {
	var buf [few]int
	dst = dst[:0]
	for i, first := range Firsts(hits, buf[:0]) {
		dst = append(dst, 0)
		switch h := &hits[i]; {
		case !out[i].Charged, h.settles() && out[i].Already:
		case h.Refund && !h.settles():
			dst[first] -= h.CountedCost()
		default:
			dst[first] += h.CountedCost() - out[i].Reserved
		}
	}
	return dst
}

// Passed returns the percentages of the limit of h that were used before and after a decided
// request, rounded down. used is the use after the request, and taken is the request's part of it.
func Passed(h *Hit, used, taken int64) (before, after int64) {
	size := int64(h.Limit.Size())
	if after = used * 100 / size; taken > used { // a failure mode admitted the hits without counting them
		return after, after
	}
	return (used - taken) * 100 / size, after
}

// Window returns the start and end of the current window of a counter of l that becomes unused
// after the duration left. now may differ from the time of the store by up to a quarter of a
// window, unless l has bans. If the algorithm has no windows, start is the zero Time, and end is
// the time at which the counter becomes unused.
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
	if hasWindows { // FirstHit
		start = end.Add(-period)
	}
	return start, end
}
