package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Result is the outcome of a request. The zero value is ready for use.
type Result struct {
	Plan      Plan
	Decisions []limiter.Decision // one for each of the plan's hits
	Statuses  []Status           // one for each descriptor
	Denied    bool
	// WouldBeDenied is true if the request is admitted only because of ShadowMode.
	WouldBeDenied bool
}

// Reset removes all references to the request and to the rules, but keeps the memory of the
// slices.
func (res *Result) Reset() {
	res.Plan.Reset()
	clear(res.Statuses)
	res.Decisions, res.Statuses, res.Denied, res.WouldBeDenied = res.Decisions[:0], res.Statuses[:0], false, false
}

// Status is the answer to one descriptor. Its times are whole seconds.
type Status struct {
	OverLimit bool
	Rule      *descriptors.Rule // nil if no rule applies, or if an override replaces a rule without the field override
	Limit     *limiter.Limit    // the limit that decided, or nil if none was counted
	Mode      limiter.Mode      // mode of Limit, see Options.Mode
	Remaining uint64            // units that Limit still admits
	// UntilReset is the time until a retry can succeed if OverLimit, and ResetAfter otherwise.
	// It is 0 if no limit was counted or no retry can succeed.
	UntilReset time.Duration
	ResetAfter time.Duration // until the full limit is available again
}

// setStatuses sets the answer to the request and to each of its descriptors from the decisions.
func (res *Result) setStatuses(opts *Options, denied bool) {
	res.Denied = denied
	if opts.ShadowMode {
		v := res.verdict(func(h *limiter.Hit) limiter.Mode { return opts.Mode(h.Limit) })
		res.WouldBeDenied = v.Denied()
	}
	for i := range res.Plan.matches {
		m := &res.Plan.matches[i]
		res.Statuses = append(res.Statuses, Status{Rule: m.reported})
		s := &res.Statuses[i]
		switch {
		case m.firstHit < m.endHit:
			decisive := m.firstHit
			for j := m.firstHit + 1; j < m.endHit; j++ {
				if res.compare(j, decisive) < 0 {
					decisive = j
				}
			}
			s.describe(res.Plan.Hits[decisive].Limit, &res.Decisions[decisive])
			s.Mode = opts.Mode(s.Limit)
		case m.unlimited:
			s.Remaining = math.MaxUint32
		}
	}
}

// verdict returns the verdict on the hits in the modes that mode returns.
func (res *Result) verdict(mode func(*limiter.Hit) limiter.Mode) (v limiter.Verdict) {
	for i := range res.Plan.Hits {
		h := &res.Plan.Hits[i]
		v.Add(mode(h), h.Group, res.Decisions[i].Over)
	}
	return v
}

// Available returns the names of the groups of quotas with room, see Options.GroupKeys. grouped
// reports whether the request has any groups of quotas.
func (res *Result) Available(opts *Options) (names [][]limiter.Entry, grouped bool) {
	if len(res.Plan.groups) == 0 {
		return nil, false
	}
	v, group := res.verdict((*limiter.Hit).EffectiveMode), uint8(0)
	for name := range slices.Chunk(res.Plan.groups, len(opts.GroupKeys)) {
		if group++; v.HasRoom(group) {
			names = append(names, name)
		}
	}
	return names, true
}

// compare returns a negative number if the status should show the decision on hit i rather than
// on hit j. Exceeded limits come before others, then longer waits before shorter ones, then
// fewer remaining units before more. Limits in shadow mode come last, because clients should not
// notice them.
func (res *Result) compare(i, j int) int {
	a, b := &res.Decisions[i], &res.Decisions[j]
	return cmp.Or(
		cmp.Compare(weight(res.Plan.Hits[j].Limit, b), weight(res.Plan.Hits[i].Limit, a)),
		cmp.Compare(uint64(b.RetryAfter), uint64(a.RetryAfter)), // Never, which is -1, becomes the longest
		cmp.Compare(a.Remaining, b.Remaining),
	)
}

func weight(l *limiter.Limit, d *limiter.Decision) int {
	switch {
	case l.Mode == limiter.Shadow:
		return 0
	case !d.Over:
		return 1
	default:
		return 2
	}
}

// describe sets s from one decision. Envoy may send UntilReset of a denied status as
// Retry-After, so UntilReset is then the time to wait, or 0 if waiting is useless.
func (s *Status) describe(l *limiter.Limit, d *limiter.Decision) {
	s.Limit = l
	s.ResetAfter = RoundUp(d.ResetAfter, time.Second)
	s.UntilReset = s.ResetAfter
	if !d.Over {
		s.Remaining = uint64(d.Remaining)
		return
	}
	if s.OverLimit = l.Mode != limiter.Shadow; s.OverLimit {
		s.UntilReset = 0
		if d.RetryAfter != limiter.Never {
			s.UntilReset = RoundUp(d.RetryAfter, time.Second)
		}
	}
}

// RetryAfter returns the time until a denied request would be admitted, or Never. By then, no
// enforced limit is exceeded, and if there are groups of quotas, one of them has room.
func (res *Result) RetryAfter() time.Duration {
	var longest uint64         // Never, which is -1, becomes the longest
	groups := map[int]uint64{} // the wait for each group of quotas
	for i := range res.Plan.Hits {
		wait := uint64(res.Decisions[i].RetryAfter) // 0 if the limit was not exceeded
		h := &res.Plan.Hits[i]
		group := cmp.Or(int(h.Group), -1-i) // a number of its own for a hit that is a group of its own
		switch h.EffectiveMode() {
		case limiter.Enforced:
			longest = max(longest, wait)
		case limiter.Quota:
			groups[group] = max(groups[group], wait)
		case limiter.Shadow:
			if h.Group > 0 {
				groups[group] = max(groups[group], 0)
			}
		}
	}
	if len(groups) > 0 {
		longest = max(longest, slices.Min(slices.Collect(maps.Values(groups))))
	}
	return time.Duration(longest)
}

// RoundUp rounds d up to a multiple of unit, at least one unit. Envoy drops fractions of
// seconds, and a client that retries too early would be denied again.
func RoundUp(d, unit time.Duration) time.Duration {
	return max((d + unit - 1).Truncate(unit), unit)
}
