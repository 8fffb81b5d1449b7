package memory

import "math/bits"

// The class of a counter says what it is worth when memory is full. Counters that
// deny are worth more than all others, because a client over its limit would pass
// again. Among equals that which was asked for more often is: what an attacker
// has to spend on a counter that pushes it out is requests, whatever the amount of
// its limit and however many units a request asks for. The bounds of classes
// are powers of two, so that a counter seldom changes its own.

const (
	levels  = 8 // 1, 2, 4, ... and 128 requests or more
	denying = levels
	classes = 2 * levels
)

// classOf returns the class of a counter, the higher the more it is worth.
func classOf(uses uint8, denies bool) uint8 {
	class := uint8(bits.Len8(uses)) - 1
	if denies {
		class += denying
	}
	return class
}

// value is what a counter is kept for.
type value struct {
	expiry int64 // when its state no longer matters
	until  int64 // when it no longer denies one more unit, 0 if it does not
}

// due is when the counter must be looked at again.
func (v value) due() int64 {
	if v.until > 0 {
		return v.until
	}
	return v.expiry
}
