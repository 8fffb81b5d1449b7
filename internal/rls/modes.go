package rls

import "weir/internal/limiter"

// mode is what it means for a request that l is over, as far as its answer
// tells: with QuotaMode no limit denies it alone.
func (o *Options) mode(l *limiter.Limit) limiter.Mode {
	if o.QuotaMode && l.Mode == limiter.Enforced {
		return limiter.Quota
	}
	return l.Mode
}

// decidingMode is the mode in which a hit on l is decided: with ShadowMode
// nothing is denied, whatever the answer tells of it.
func (o *Options) decidingMode(l *limiter.Limit) limiter.Mode {
	if o.ShadowMode {
		return limiter.Shadow
	}
	return o.mode(l)
}

// wouldBeDenied tells whether a request that ShadowMode lets pass would be
// denied without it.
func (c *call) wouldBeDenied(o *Options) bool {
	var v limiter.Verdict
	for i := range c.hits {
		v.Add(o.mode(c.hits[i].Limit), c.decisions[i].Over)
	}
	return v.Denied()
}
