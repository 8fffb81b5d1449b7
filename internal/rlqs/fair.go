package rlqs

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

// demands maps a number of tokens to the number of Envoys that ask for it. Servers exchange demands as JSON.
type demands map[uint64]uint64

// rounded rounds a demand up to 6 significant bits, so that there are few different demands.
func rounded(tokens uint64) uint64 {
	low := max(bits.Len64(tokens)-6, 0)
	return (tokens + 1<<low - 1) >> low << low
}

// cut is a max-min fair division of tokens: small demands are met, and all larger demands get the same
// amount, give or take one token.
type cut struct {
	level uint64 // number of tokens for each larger demand
	over  uint64 // number of demands above level that get one token more
	bonus uint64 // additional tokens for each demand if all demands are met
}

// fair divides size tokens among the demands d. If all demands are met, the remaining tokens are
// divided evenly among the Envoys in d and further Envoys, whose number is the parameter absent.
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

// share returns the tokens for a demand. If plus is true, a demand above level gets one more unless
// over is 0.
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

// sum returns the number of tokens for all demands in d.
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
