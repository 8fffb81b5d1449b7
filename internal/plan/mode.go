package plan

import "weir/internal/limiter"

// SwitchedOn says which switches are on that change the answer to every request: left on by
// mistake, they would go unnoticed.
func SwitchedOn(shadowMode, quotaMode bool) (notes []string) {
	if shadowMode {
		notes = append(notes, "SHADOW_MODE is on: no request is denied")
	}
	if quotaMode {
		notes = append(notes, "QUOTA_MODE is on: a request is denied only if all its limits are exceeded")
	}
	return notes
}

// Mode returns the mode of l that statuses are about. With QuotaMode an enforced limit
// is a quota, unless it is of an exception.
func (o *Options) Mode(l *limiter.Limit) limiter.Mode {
	if o.QuotaMode && l.Mode == limiter.Enforced && !l.Veto {
		return limiter.Quota
	}
	return l.Mode
}

// DecidingMode returns the mode in which hits on l are decided. With ShadowMode it is
// Shadow, and statuses are still about Mode.
func (o *Options) DecidingMode(l *limiter.Limit) limiter.Mode {
	if o.ShadowMode {
		return limiter.Shadow
	}
	return o.Mode(l)
}

// WouldBeDenied reports whether the request is admitted only because of ShadowMode.
func (p *Result) WouldBeDenied() bool {
	if !p.planner.ShadowMode {
		return false
	}
	var v limiter.Verdict
	for i := range p.Hits {
		v.Add(p.planner.Mode(p.Hits[i].Limit), p.Decisions[i].Over)
	}
	return v.Denied()
}
