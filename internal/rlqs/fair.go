package rlqs

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

// demands are numbers of Envoys by the tokens that each of them asks for. Servers exchange them as JSON.
type demands map[uint64]uint64

// rounded rounds a demand up to 6 significant bits, so that there are few different demands.
func rounded(tokens uint64) uint64 {
	low := max(bits.Len64(tokens)-6, 0)
	return (tokens + 1<<low - 1) >> low << low
}

// cut divides tokens max-min fair: small demands are met, and all larger demands get the same.
type cut struct {
	level uint64 // the most that a demand gets
	over  uint64 // demands above the level that get one token more
	bonus uint64 // tokens for each demand beyond itself, if all are met
}

// fair returns the cut of size tokens. If all demands are met, the other tokens are divided evenly
// among the Envoys and a number of absent ones.
func fair(size uint64, d demands, absent uint64) cut {
	left, envoys := size, uint64(0)
	for _, n := range d {
		envoys += n
	}
	all := envoys + absent
	for _, tokens := range slices.Sorted(maps.Keys(d)) {
		if level := left / envoys; tokens > level {
			return cut{level: level, over: left % envoys}
		}
		left -= tokens * d[tokens]
		envoys -= d[tokens]
	}
	return cut{level: math.MaxUint64, bonus: left / max(all, 1)}
}

// share returns the tokens for a demand. If plus is set, the demand gets one of the tokens in over.
func (c cut) share(tokens uint64, plus bool) uint64 {
	switch {
	case tokens <= c.level:
		return tokens + c.bonus
	case plus && c.over > 0:
		return c.level + 1
	default:
		return c.level
	}
}

// sum returns the tokens for all of d.
func (c cut) sum(d demands) (tokens uint64) {
	above := uint64(0)
	for t, n := range d {
		tokens += n * c.share(t, false)
		if t > c.level {
			above += n
		}
	}
	return tokens + min(above, c.over)
}
