package rls

import (
	"math"
	"time"

	"weir/internal/limiter"
)

// answer is a RateLimitResponse.
type answer struct {
	overall  code
	statuses []status // one for each descriptor, in order
	headers  []header // for the response
	metadata []byte   // a google.protobuf.Struct, encoded, nil for none
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
	remaining  uint32
	untilReset int64 // whole seconds, 0: not told

	resetAfter time.Duration // until the whole limit is free again
}

// settle fills the answer in from what became of the hits.
func (c *call) settle(denied bool) {
	c.answer.overall = codeOK
	if denied {
		c.answer.overall = codeOverLimit
	}
	for i := range c.matches {
		s := status{code: codeOK}
		switch m := &c.matches[i]; {
		case m.counted():
			s = describe(m.limit, &c.decisions[m.hit])
		case m.limit != nil:
			s.remaining = math.MaxUint32
		}
		c.answer.statuses = append(c.answer.statuses, s)
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
