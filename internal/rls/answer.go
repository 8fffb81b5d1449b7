package rls

import (
	"cmp"
	"math"
	"time"

	"weir/internal/limiter"
)

// answer is a RateLimitResponse.
type answer struct {
	overall         code
	statuses        []status // one for each descriptor, in order
	responseHeaders []header
	requestHeaders  []header
	metadata        []byte // a google.protobuf.Struct, encoded, nil for none
}

// code is a RateLimitResponse.Code.
type code uint8

const (
	codeOK        code = 1
	codeOverLimit code = 2
)

// status is a RateLimitResponse.DescriptorStatus.
type status struct {
	code       code
	limit      *limiter.Limit // nil: no limit was counted
	mode       limiter.Mode   // of limit, see Options.mode
	remaining  uint32
	untilReset int64 // whole seconds, 0: not told

	resetAfter time.Duration // until the whole limit is free again
}

// settle fills the answer in from what became of the hits.
func (c *call) settle(denied bool, o *Options) {
	c.answer.overall = codeOK
	if denied {
		c.answer.overall = codeOverLimit
	}
	for i := range c.matches {
		s := status{code: codeOK}
		switch m := &c.matches[i]; {
		case m.counted():
			hit := c.decisive(m)
			s = describe(c.hits[hit].Limit, &c.decisions[hit])
			s.mode = o.mode(s.limit)
		case m.unlimited:
			s.remaining = math.MaxUint32
		}
		c.answer.statuses = append(c.answer.statuses, s)
	}
}

// decisive returns the place of the hit that the status of a descriptor is about.
func (c *call) decisive(m *match) int {
	best := m.first
	for i := m.first + 1; i < m.end; i++ {
		if c.compare(i, best) < 0 {
			best = i
		}
	}
	return best
}

// compare tells by a negative number that the outcome of hit i says more about
// a descriptor than that of hit j: what is denied comes before what is admitted,
// then who has to wait longer, then who has less left. A limit in shadow mode,
// which clients are not to notice, comes after all others.
func (c *call) compare(i, j int) int {
	a, b := &c.decisions[i], &c.decisions[j]
	return cmp.Or(
		cmp.Compare(weight(c.hits[j].Limit, b), weight(c.hits[i].Limit, a)),
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

// describe tells the outcome of one hit. Envoy makes Retry-After of the time of
// a denied status, so this one tells when to come back, or nothing if there is
// no use in it; the time of an admitted status is when the limit is whole again.
func describe(l *limiter.Limit, d *limiter.Decision) status {
	s := status{
		code:       codeOK,
		limit:      l,
		remaining:  uint32(min(d.Remaining, math.MaxUint32)),
		untilReset: seconds(d.ResetAfter),
		resetAfter: d.ResetAfter,
	}
	if d.Over {
		s.remaining = 0
	}
	if d.Over && l.Mode != limiter.Shadow {
		s.code = codeOverLimit
		s.untilReset = 0
		if d.RetryAfter != limiter.Never {
			s.untilReset = seconds(d.RetryAfter)
		}
	}
	return s
}

// seconds rounds d up to whole seconds, at least 1: Envoy drops fractions, and
// a client told to come back at once would come too early.
func seconds(d time.Duration) int64 {
	return max(int64((d+time.Second-1)/time.Second), 1)
}
