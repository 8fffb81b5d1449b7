package operators

import (
	"sync/atomic"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// sentLimits remembers the limit that the last request to this server sent for a descriptor, for about 32,000
// descriptors.
type sentLimits struct {
	any  atomic.Bool // a request has sent a limit
	last *limiter.Recent[plan.Override]
}

// observe remembers the limits that r sends, and forgets the limit of each descriptor in r that has none.
func (s *sentLimits) observe(r *plan.Request, p *plan.Plan) {
	var buf [256]byte
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		if !d.HasOverride && !s.any.Load() {
			continue
		}
		key := limiter.Keys{}.Append(buf[:0], r.Domain, p.Counted(i), nil)
		if d.HasOverride || s.last.Get(key) != (plan.Override{}) {
			s.any.Store(true)
			s.last.Touch(key, func(o *plan.Override) { *o = d.Override })
		}
	}
}

// of returns a descriptor with the given entries. It has the last limit sent for them if that limit is
// valid. The parameter counted has the entries without the one that names a hold.
func (s *sentLimits) of(domain string, entries, counted []limiter.Entry) plan.Descriptor {
	o := s.last.Get(limiter.Keys{}.Append(nil, domain, counted, nil))
	return plan.Descriptor{Entries: entries, Override: o, HasOverride: o.Check() == nil}
}
