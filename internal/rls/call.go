package rls

import "weir/internal/limiter"

// call holds all that one request needs, so that the next one finds it
// allocated. A call serves one request at a time.
type call struct {
	wire    []byte // the request, which its strings are parts of; never written
	request request

	matches   []match // one for each descriptor
	unmatched int     // how many of these have neither a rule nor an override
	replaced  []string

	hits      []limiter.Hit
	keys      []byte // of hits, one after the other
	labels    []byte // likewise, of those with values of the request
	decisions []limiter.Decision

	answer answer
	reply  []byte // the answer as it is sent
}

// What a rare enormous request allocated is not kept.
const (
	maxKeptItems = 4096 // of each kind
	maxKeptBytes = 256 << 10
)

// newCall returns a call that is ready for a request.
func (s *Service) newCall() *call {
	return s.calls.Get().(*call)
}

// release keeps the memory of c for a later call. Nothing of c may be used any more.
func (s *Service) release(c *call) {
	if c.isEnormous() {
		return
	}
	c.clear()
	s.calls.Put(c)
}

// WireSize returns how many bytes the request has.
func (c *call) WireSize() int { return len(c.wire) }

func (c *call) isEnormous() bool {
	items := max(cap(c.request.entries), cap(c.request.descriptors), cap(c.hits)) // all others are as many
	bytes := max(cap(c.keys), cap(c.labels), cap(c.reply))
	return items > maxKeptItems || bytes > maxKeptBytes
}

// clear forgets the request, and with it every reference to its bytes and to
// the rules, but keeps the memory of the slices.
func (c *call) clear() {
	clear(c.request.descriptors)
	clear(c.request.entries)
	clear(c.matches)
	clear(c.replaced)
	clear(c.hits)
	clear(c.answer.statuses)
	*c = call{
		request: request{
			descriptors: c.request.descriptors[:0],
			entries:     c.request.entries[:0],
		},
		matches:   c.matches[:0],
		replaced:  c.replaced[:0],
		hits:      c.hits[:0],
		keys:      c.keys[:0],
		labels:    c.labels[:0],
		decisions: c.decisions[:0],
		answer:    answer{statuses: c.answer.statuses[:0]},
		reply:     c.reply[:0],
	}
}
