package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Result is what came of a request. Its zero value is ready for use.
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

// Status is what becomes of one descriptor. Its times are whole seconds.
type Status struct {
	OverLimit bool
	Rule      *descriptors.Rule // nil: none, or an override
	Limit     *limiter.Limit    // that decided, nil if none was counted
	Mode      limiter.Mode      // of Limit, see Options.Mode
	Remaining uint64            // what Limit still admits
	// UntilReset is when to try again if OverLimit, else when the limit is whole again. It is 0
	// where there is no time to tell: no limit was counted, or there is no use in trying again.
	UntilReset time.Duration
	ResetAfter time.Duration // until the whole limit is free again
}

// setStatuses sets what the decisions mean for the request and for each of its descriptors.
func (res *Result) setStatuses(opts *Options, denied bool) {
	res.Denied = denied
	res.WouldBeDenied = opts.ShadowMode && res.deniedWithoutShadowMode(opts)
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

// deniedWithoutShadowMode reports whether the decisions would deny the request without ShadowMode.
func (res *Result) deniedWithoutShadowMode(opts *Options) bool {
	var v limiter.Verdict
	for i := range res.Plan.Hits {
		v.Add(opts.Mode(res.Plan.Hits[i].Limit), res.Decisions[i].Over)
	}
	return v.Denied()
}

// compare returns a negative number if the outcome of hit i says more about
// a descriptor than that of hit j: what is denied comes before what is admitted,
// then who has to wait longer, then who has less left. A limit in shadow mode,
// which clients are not to notice, comes after all others.
func (res *Result) compare(i, j int) int {
	a, b := &res.Decisions[i], &res.Decisions[j]
	return cmp.Or(
		cmp.Compare(weight(res.Plan.Hits[j].Limit, b), weight(res.Plan.Hits[i].Limit, a)),
		cmp.Compare(uint64(b.RetryAfter), uint64(a.RetryAfter)), // Never, -1, becomes the longest
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

// describe returns the outcome of one hit. Envoy makes Retry-After of the time of
// a denied status, so this one says when to come back, or nothing if there is
// no use in it; the time of an admitted status is when the limit is whole again.
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

// RetryAfter returns when a denied request would be admitted, or Never: when no
// enforced limit is over any more and, of the quotas, not all are.
func (res *Result) RetryAfter() time.Duration {
	var longest uint64 // Never, -1, becomes the longest
	var quotas []uint64
	for i := range res.Plan.Hits {
		wait := uint64(res.Decisions[i].RetryAfter) // 0 if the limit is not over
		switch res.Plan.Hits[i].EffectiveMode() {
		case limiter.Enforced:
			longest = max(longest, wait)
		case limiter.Quota:
			quotas = append(quotas, wait)
		}
	}
	if len(quotas) > 0 {
		longest = max(longest, slices.Min(quotas))
	}
	return time.Duration(longest)
}

// RoundUp returns d in whole units, at least one: Envoy drops fractions of seconds,
// and a client told to come back at once would come too early.
func RoundUp(d, unit time.Duration) time.Duration {
	return max((d + unit - 1).Truncate(unit), unit)
}
