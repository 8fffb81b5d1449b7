package limiter

import "math/big"

// The books of the judge, one kind for each algorithm. An empty one is as good
// as new, whatever time it has seen.

// newBooks makes the empty books, one for each algorithm.
var newBooks = map[Algorithm]func() book{
	FixedWindow:   func() book { return windowBook{use: new(big.Rat)} },
	SlidingWindow: func() book { return slidingBook{} },
	TokenBucket:   func() book { return bucketBook{level: new(big.Rat)} },
}

// windowBook is what a fixed window used.
type windowBook struct {
	start int64
	use   *big.Rat
}

func (b windowBook) turn(r *rule, now int64) book {
	if !b.empty() && now < b.start+r.period {
		return b
	}
	return windowBook{r.start(now), new(big.Rat)}
}

// start is when the window starts that a hit at now would be in, if it is the first.
func (r *rule) start(now int64) int64 {
	if r.limit.Anchor == Epoch {
		return now - now%r.period
	}
	return now
}

func (b windowBook) back(r *rule, now int64) book {
	return windowBook{min(b.start, r.start(now)), b.use}
}

func (b windowBook) write(_ *rule, change *big.Rat) book {
	return windowBook{b.start, within(sum(b.use, change), rat(1<<52))}
}

func (b windowBook) end(r *rule) int64   { return b.start + r.period }
func (b windowBook) used(*rule) *big.Rat { return b.use }
func (b windowBook) empty() bool         { return b.use.Sign() == 0 }

// slidingBook is what each window used. Of the previous one it counts the share
// that a span of one period up to now covers.
type slidingBook struct {
	now    int64
	window int64 // number of the newest window seen
	uses   map[int64]*big.Rat
}

func (b slidingBook) turn(r *rule, now int64) book {
	b.now = now
	if window := now / r.period; window > b.window || b.empty() {
		b.window = window
		b.uses = map[int64]*big.Rat{window: b.of(window), window - 1: b.of(window - 1)} // others never matter again
	}
	return b
}

func (b slidingBook) of(window int64) *big.Rat {
	if use := b.uses[window]; use != nil {
		return use
	}
	return new(big.Rat)
}

func (b slidingBook) used(r *rule) *big.Rat {
	elapsed := b.now - b.window*r.period
	share := big.NewRat(r.period-elapsed, r.period)
	return sum(b.of(b.window), share.Mul(share, b.of(b.window-1)))
}

func (b slidingBook) write(r *rule, change *big.Rat) book {
	current := within(sum(b.of(b.window), change), rat(1<<52))
	uses := map[int64]*big.Rat{b.window: current, b.window - 1: b.of(b.window - 1)}
	return slidingBook{b.now, b.window, uses}
}

func (b slidingBook) back(r *rule, now int64) book {
	window := now / r.period
	if window >= b.window {
		return b
	}
	all := within(sum(b.of(b.window), b.of(b.window-1)), rat(1<<52))
	return slidingBook{now, window, map[int64]*big.Rat{window: all}}
}

func (b slidingBook) empty() bool {
	return b.of(b.window).Sign() == 0 && b.of(b.window-1).Sign() == 0
}

// bucketBook is a bucket's level in units, which sinks evenly.
type bucketBook struct {
	at    int64
	level *big.Rat
}

func (b bucketBook) turn(r *rule, now int64) book {
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
		return bucketBook{now, level}
	}
	return bucketBook{now, level}
}

func (b bucketBook) back(_ *rule, now int64) book { return bucketBook{min(b.at, now), b.level} }

func (b bucketBook) write(r *rule, change *big.Rat) book {
	amount := r.amount
	if amount.Sign() == 0 {
		amount = rat(1)
	}
	return bucketBook{b.at, within(sum(b.level, change), sum(r.size, amount))}
}

func (b bucketBook) used(*rule) *big.Rat { return b.level }
func (b bucketBook) empty() bool         { return b.level.Sign() == 0 }

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
