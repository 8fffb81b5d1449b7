package limiter

// tokenBucket is the generic cell rate algorithm (GCRA, ITU-T I.371): a bucket
// that fills with use and drains at the amount per period. A hit is admitted
// if the bucket does not overflow with it. In whole numbers: with period and
// amount divided by their greatest common divisor, a unit adds price to the
// level and each tick drains drain from it, and
//
//	level = max(0, (At-now)*drain + Used)
//
// State: At and Used tell when the bucket will be empty: Used/drain of a tick
// after At. Bursts are bounded by the bucket's size, and what is admitted in
// any span t by burst + amount*t/period.
type tokenBucket struct {
	price, drain int64
	burst        int64
	full         int64 // level at which nothing fits: burst units
	brim         int64 // highest level that is counted: full and a period's amount of debt
}

// newTokenBucket reports whether all products are exact. The largest is a level
// at the brim with the largest cost added.
func newTokenBucket(period, amount, burst int64) (tokenBucket, bool) {
	if amount == 0 {
		return tokenBucket{price: 1, drain: 1}, true // nothing ever fits
	}
	g := gcd(period, amount)
	b := tokenBucket{price: period / g, drain: amount / g, burst: burst}
	units := 2*burst + amount + 1 // the brim, and the largest cost
	if units > maxExact/2/b.price {
		return b, false
	}
	b.full = burst * b.price
	b.brim = (burst + amount) * b.price
	return b, true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (b tokenBucket) roll(s State, now int64) State {
	if now > s.At {
		return State{At: now}
	}
	return s
}

// level is the bucket's level. At is never before now in a rolled state.
func (b tokenBucket) level(s State, now int64) int64 {
	ahead := s.At - now
	if ahead > b.brim/b.drain { // the clock stepped back far
		return b.brim
	}
	return min(ahead*b.drain+s.Used, b.brim)
}

// at is the state of a level.
func (b tokenBucket) at(level, now int64) State {
	return State{At: now + level/b.drain, Used: level % b.drain}
}

func (b tokenBucket) fits(s State, now, cost int64) bool {
	return b.level(s, now)+cost*b.price <= b.full
}

func (b tokenBucket) take(s State, now, cost int64) State {
	return b.at(min(b.level(s, now)+cost*b.price, b.brim), now)
}

func (b tokenBucket) give(s State, now, cost int64) State {
	return b.at(max(b.level(s, now)-cost*b.price, 0), now)
}

func (b tokenBucket) left(s State, now int64) (used, free, whole int64) {
	level := b.level(s, now)
	return ceilDiv(level, b.price), max(b.full-level, 0) / b.price, ceilDiv(level, b.drain)
}

func (b tokenBucket) wait(s State, now, cost int64) int64 {
	if cost > b.burst {
		return never
	}
	return ceilDiv(max(b.level(s, now)+cost*b.price-b.full, 0), b.drain)
}

func (b tokenBucket) expiry(s State) int64 {
	if s.Used > 0 {
		return s.At + 1
	}
	return s.At
}

func (b tokenBucket) most() int64 { return b.burst + b.brim/b.price + 1 }

func (b tokenBucket) numbers() (Kind, [4]int64) {
	return KindTokenBucket, [4]int64{b.price, b.drain, b.full, b.brim}
}
