package operators

import (
	"sync/atomic"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// sentLimits remembers, for each of about 32,000 descriptors, the limit in the last request for the
// descriptor to this server.
type sentLimits struct {
	any  atomic.Bool // a request has sent a limit
	last *limiter.Recent[plan.Override]
}

// observe notes the limits that r sends. If r has a descriptor without a limit, observe forgets
// the limit of that descriptor.
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

// of returns a descriptor with these entries, and with the limit in the last request for them if that limit
// is valid. counted has the entries without the entry that names a hold.
func (s *sentLimits) of(domain string, entries, counted []limiter.Entry) plan.Descriptor {
	o := s.last.Get(limiter.Keys{}.Append(nil, domain, counted, nil))
	return plan.Descriptor{Entries: entries, Override: o, HasOverride: o.Check() == nil}
}
