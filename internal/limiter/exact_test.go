package limiter

import "math/big"

// The exact counters of the judge, one kind for each algorithm. An empty one is as good
// as new, whatever time it has seen.

// newExactCounter makes empty counters, one for each algorithm.
var newExactCounter = map[Algorithm]func() exactCounter{
	FixedWindow:   func() exactCounter { return exactWindow{use: new(big.Rat)} },
	SlidingWindow: func() exactCounter { return exactSliding{} },
	TokenBucket:   func() exactCounter { return exactBucket{level: new(big.Rat)} },
}

// exactWindow is what a fixed window used.
type exactWindow struct {
	start int64
	use   *big.Rat
}

func (b exactWindow) turn(r *rule, now int64) exactCounter {
	if !b.empty() && now < b.start+r.period {
		return b
	}
	return exactWindow{r.start(now), new(big.Rat)}
}

// start is when the window starts that a hit at now would be in, if it is the first.
func (r *rule) start(now int64) int64 {
	if r.limit.Anchor == Epoch {
		return now - now%r.period
	}
	return now
}

func (b exactWindow) back(r *rule, now int64) exactCounter {
	return exactWindow{min(b.start, r.start(now)), b.use}
}

func (b exactWindow) write(_ *rule, change *big.Rat) exactCounter {
	return exactWindow{b.start, within(sum(b.use, change), rat(1<<52))}
}

func (b exactWindow) end(r *rule) int64   { return b.start + r.period }
func (b exactWindow) used(*rule) *big.Rat { return b.use }
func (b exactWindow) empty() bool         { return b.use.Sign() == 0 }

// exactSliding is what each window used. Of the previous one it counts the share
// that a span of one period up to now covers.
type exactSliding struct {
	now    int64
	window int64 // number of the newest window seen
	uses   map[int64]*big.Rat
}

func (b exactSliding) turn(r *rule, now int64) exactCounter {
	b.now = now
	if window := now / r.period; window > b.window || b.empty() {
		b.window = window
		b.uses = map[int64]*big.Rat{window: b.of(window), window - 1: b.of(window - 1)} // others never matter again
	}
	return b
}

func (b exactSliding) of(window int64) *big.Rat {
	if use := b.uses[window]; use != nil {
		return use
	}
	return new(big.Rat)
}

func (b exactSliding) used(r *rule) *big.Rat {
	elapsed := b.now - b.window*r.period
	share := big.NewRat(r.period-elapsed, r.period)
	return sum(b.of(b.window), share.Mul(share, b.of(b.window-1)))
}

func (b exactSliding) write(r *rule, change *big.Rat) exactCounter {
	current := within(sum(b.of(b.window), change), rat(1<<52))
	uses := map[int64]*big.Rat{b.window: current, b.window - 1: b.of(b.window - 1)}
	return exactSliding{b.now, b.window, uses}
}

func (b exactSliding) back(r *rule, now int64) exactCounter {
	window := now / r.period
	if window >= b.window {
		return b
	}
	all := within(sum(b.of(b.window), b.of(b.window-1)), rat(1<<52))
	return exactSliding{now, window, map[int64]*big.Rat{window: all}}
}

func (b exactSliding) empty() bool {
	return b.of(b.window).Sign() == 0 && b.of(b.window-1).Sign() == 0
}

// exactBucket is a bucket's level in units, which sinks evenly.
type exactBucket struct {
	at    int64
	level *big.Rat
}

func (b exactBucket) turn(r *rule, now int64) exactCounter {
	amount := r.amount
	if amount.Sign() == 0 {
		amount = rat(1) // nothing fits such a limit, but a debt goes away
	}
	level := within(b.level, sum(r.size, amount)) // lower if the limit was lowered
	if now > b.at {
		drained := big.NewRat(now-b.at, r.period)
		level = within(difference(level, drained.Mul(drained, amount)), level)
	}
	if level.Sign() == 0 {
		return exactBucket{now, level}
	}
	return exactBucket{now, level}
}

func (b exactBucket) back(_ *rule, now int64) exactCounter {
	return exactBucket{min(b.at, now), b.level}
}

func (b exactBucket) write(r *rule, change *big.Rat) exactCounter {
	amount := r.amount
	if amount.Sign() == 0 {
		amount = rat(1)
	}
	return exactBucket{b.at, within(sum(b.level, change), sum(r.size, amount))}
}

func (b exactBucket) used(*rule) *big.Rat { return b.level }
func (b exactBucket) empty() bool         { return b.level.Sign() == 0 }

func rat(n uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(n)) }

func sum(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }

func difference(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

// within is a, but at least 0 and at most b.
func within(a, b *big.Rat) *big.Rat {
	switch {
	case a.Sign() < 0:
		return new(big.Rat)
	case a.Cmp(b) > 0:
		return b
	}
	return a
}

func floor(a *big.Rat) *big.Int { return new(big.Int).Div(a.Num(), a.Denom()) } // Div rounds down for b > 0

func ceil(a *big.Rat) *big.Int {
	return new(big.Int).Neg(floor(new(big.Rat).Neg(a)))
}
