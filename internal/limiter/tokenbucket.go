package limiter

// tokenBucket is the generic cell rate algorithm (GCRA, ITU-T I.371): a bucket
// that hits fill and time drains, at the amount per period. A hit is admitted
// if the bucket does not overflow with it. So a burst is at most the bucket's
// size, and what is admitted in any span t is at most burst + amount*t/period.
//
// It counts in whole numbers: with period and amount divided by their greatest
// common divisor, a unit adds price to the bucket's level and each tick takes
// drain from it. A hit that is charged although it does not fit raises the
// level above the size, up to the brim: a period's amount of debt.
//
// State: At is when the bucket was seen last, Used the units that it held then
// and Prev the part of one more, in units per period: a measure that does not
// depend on the amount, so that a changed amount keeps what is used. While the
// clock is behind At, nothing drains.
type tokenBucket struct {
	price, drain  int64
	amount, burst int64
}

// newTokenBucket reports whether all products are exact. The largest is a level
// at the brim with the largest cost added.
func newTokenBucket(period, amount, burst int64) (tokenBucket, bool) {
	amount = max(amount, 1) // without it, burst is 0 as well: nothing fits, but debt drains
	g := gcd(period, amount)
	b := tokenBucket{price: period / g, drain: amount / g, amount: amount, burst: burst}
	return b, burst+amount+b.most() <= maxExact/b.price
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// full is the level at which nothing fits any more.
func (b tokenBucket) full() int64 { return b.burst * b.price }

// brim is the highest level that is counted.
func (b tokenBucket) brim() int64 { return (b.burst + b.amount) * b.price }

// grain is what a level of 1 is in State.Prev.
func (b tokenBucket) grain() int64 { return b.amount / b.drain }

// level is the bucket's level at s.At. Only a state that was left by another
// amount can be above the brim, or in parts that must be rounded.
func (b tokenBucket) level(s State) int64 {
	if s.Used >= b.burst+b.amount {
		return b.brim()
	}
	return s.Used*b.price + ceilDiv(s.Prev, b.grain())
}

// state is the state of a level.
func (b tokenBucket) state(at, level int64) State {
	return State{At: at, Used: level / b.price, Prev: level % b.price * b.grain()}
}

func (b tokenBucket) roll(s State, now int64) State {
	level, elapsed := b.level(s), max(now-s.At, 0)
	if elapsed >= ceilDiv(level, b.drain) { // else the product below is no larger than level
		return State{At: now}
	}
	return b.state(s.At+elapsed, level-elapsed*b.drain)
}

func (b tokenBucket) fits(s State, _, cost int64) bool {
	return b.level(s)+cost*b.price <= b.full()
}

func (b tokenBucket) take(s State, cost int64) State {
	return b.state(s.At, min(b.level(s)+cost*b.price, b.brim()))
}

func (b tokenBucket) give(s State, cost int64) State {
	return b.state(s.At, max(b.level(s)-cost*b.price, 0))
}

func (b tokenBucket) left(s State, now int64) (used, free, whole int64) {
	level := b.level(s)
	return ceilDiv(level, b.price), max(b.full()-level, 0) / b.price, max(b.expiry(s)-now, 0)
}

func (b tokenBucket) wait(s State, now, cost int64) int64 {
	if cost > b.burst {
		return never
	}
	over := b.level(s) + cost*b.price - b.full()
	if over <= 0 {
		return 0
	}
	return s.At - now + ceilDiv(over, b.drain)
}

func (b tokenBucket) expiry(s State) int64 {
	if s.unused() {
		return 0
	}
	return s.At + ceilDiv(b.level(s), b.drain)
}

// most fills the emptiest bucket to the brim, empties the fullest, and fits none.
func (b tokenBucket) most() int64 { return b.burst + b.amount + 1 }

func (b tokenBucket) numbers() (Kind, [4]int64) {
	return KindTokenBucket, [4]int64{b.price, b.drain, b.amount, b.burst}
}
