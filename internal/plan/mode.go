package plan

import "weir/internal/limiter"

// Mode returns what it means for a request that l is over, as far as its answer
// tells: with QuotaMode no limit denies it alone.
func (o *Options) Mode(l *limiter.Limit) limiter.Mode {
	if o.QuotaMode && l.Mode == limiter.Enforced {
		return limiter.Quota
	}
	return l.Mode
}

// DecidingMode returns the mode in which a hit on l is decided: with ShadowMode
// nothing is denied, whatever the answer tells of it.
func (o *Options) DecidingMode(l *limiter.Limit) limiter.Mode {
	if o.ShadowMode {
		return limiter.Shadow
	}
	return o.Mode(l)
}

// WouldBeDenied reports whether the request is admitted only because of ShadowMode.
func (p *Plan) WouldBeDenied() bool {
	if !p.opts.ShadowMode {
		return false
	}
	var v limiter.Verdict
	for i := range p.Hits {
		v.Add(p.opts.Mode(p.Hits[i].Limit), p.Decisions[i].Over)
	}
	return v.Denied()
}
