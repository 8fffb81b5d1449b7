package limiter

import (
	"bytes"
	"maps"
	"math/big"
	"slices"
)

// The exact counters of the judge, one type for each algorithm. An empty counter equals an
// unused counter, even if it has seen a later time.

// newExactCounter has, for each algorithm, a constructor of empty counters.
var newExactCounter = map[Algorithm]func() exactCounter{
	FixedWindow:   func() exactCounter { return exactWindow{use: new(big.Rat)} },
	FirstHit:      func() exactCounter { return exactWindow{use: new(big.Rat)} },
	ByCalendar:    func() exactCounter { return exactWindow{use: new(big.Rat)} },
	SlidingWindow: func() exactCounter { return exactSliding{} },
	TokenBucket:   func() exactCounter { return exactBucket{level: new(big.Rat)} },
	Concurrency:   func() exactCounter { return exactHolds{} },
	SlidingLog:    func() exactCounter { return exactLog{} },
}

// exactWindow is the use of a fixed window.
type exactWindow struct {
	start int64
	use   *big.Rat
}

func (b exactWindow) turn(r *rule, now int64) exactCounter {
	if !b.empty() && now < b.end(r) {
		return b
	}
	return exactWindow{r.start(now), new(big.Rat)}
}

// start returns the start of the window of a first hit at now.
func (r *rule) start(now int64) int64 {
	switch r.limit.Algorithm {
	case FirstHit:
		return now
	case ByCalendar:
		start, _ := r.onCalendar(now)
		return start
	}
	return now - now%r.period
}

// onCalendar returns the start and end of a calendar window, which TestCalendarFollowsTheZone
// judges.
func (r *rule) onCalendar(now int64) (start, end int64) {
	if c := r.limit.Calendar(); c != nil {
		w := c.Windows(now)
		return w.Start, w.Next
	}
	start = now - now%r.period
	return start, start + r.period
}

func (b exactWindow) back(r *rule, now int64) exactCounter {
	return exactWindow{min(b.start, r.start(now)), b.use}
}

func (b exactWindow) write(_ *rule, change *big.Rat) exactCounter {
	return exactWindow{b.start, within(sum(b.use, change), rat(1<<52))}
}

func (b exactWindow) end(r *rule) int64 {
	if r.limit.Algorithm == ByCalendar {
		_, end := r.onCalendar(b.start)
		return end
	}
	return b.start + r.period
}

func (b exactWindow) used(*rule) *big.Rat { return b.use }
func (b exactWindow) empty() bool         { return b.use.Sign() == 0 }

// exactSliding has the use of each window. The previous window counts in proportion to its part in
// the period that ends now.
type exactSliding struct {
	now    int64
	window int64 // number of the newest window seen
	uses   map[int64]*big.Rat
}

func (b exactSliding) turn(r *rule, now int64) exactCounter {
	b.now = now
	if window := now / r.period; window > b.window || b.empty() {
		b.window = window
		b.uses = map[int64]*big.Rat{window: b.of(window), window - 1: b.of(window - 1)} // other windows never matter again
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

// exactBucket is the level of a bucket in units, which drains evenly.
type exactBucket struct {
	at    int64
	level *big.Rat
}

func (b exactBucket) turn(r *rule, now int64) exactCounter {
	level := within(b.level, sum(r.size, r.drain)) // less if the limit was lowered
	if now > b.at {
		drained := big.NewRat(now-b.at, r.period)
		level = within(difference(level, drained.Mul(drained, r.drain)), level)
	}
	return exactBucket{now, level}
}

func (b exactBucket) back(_ *rule, now int64) exactCounter {
	return exactBucket{min(b.at, now), b.level}
}

func (b exactBucket) write(r *rule, change *big.Rat) exactCounter {
	return exactBucket{b.at, within(sum(b.level, change), sum(r.size, r.drain))}
}

func (b exactBucket) used(*rule) *big.Rat { return b.level }
func (b exactBucket) empty() bool         { return b.level.Sign() == 0 }

// exactHolds has the expiry of each hold by name.
type exactHolds struct{ ends map[string]int64 }

func (b exactHolds) turn(_ *rule, now int64) exactCounter {
	live := maps.Clone(b.ends)
	maps.DeleteFunc(live, func(_ string, end int64) bool { return end <= now })
	return exactHolds{live}
}

func (b exactHolds) back(r *rule, now int64) exactCounter {
	ends := map[string]int64{}
	for name, end := range b.ends {
		ends[name] = min(end, now+r.period)
	}
	return exactHolds{ends}.turn(r, now) // expired holds do not come back when the clock steps back
}

// isAlready reports whether h would change nothing, because its hold is taken or, for a refund,
// not taken.
func (b exactHolds) isAlready(h *Hit) bool {
	_, held := b.ends[string(h.Hold)]
	return held != h.Refund
}

// hold takes or releases the hold that h names.
func (b exactHolds) hold(r *rule, h *Hit, now int64) exactCounter {
	ends := map[string]int64{}
	maps.Copy(ends, b.ends)
	if h.Refund {
		delete(ends, string(h.Hold))
	} else if ends[string(h.Hold)] == 0 {
		ends[string(h.Hold)] = now + r.period
	}
	return exactHolds{ends}
}

// retry returns a second, -1 if the hits on the counter name more holds than the limit admits,
// or 0 if there is room for all of them.
func (b exactHolds) retry(r *rule, hits []Hit, i int) int64 {
	taken, all := map[string]bool{}, 0
	for j := range hits {
		h := &hits[j]
		if !bytes.Equal(h.Key, hits[i].Key) || h.Refund {
			continue
		}
		asked := maps.Clone(taken)
		asked[string(h.Hold)] = true
		all = max(all, len(asked))
		if h.Cost > 0 {
			taken = asked
		}
	}
	switch all := rat(uint64(all)); {
	case all.Cmp(r.size) > 0:
		return -1
	case r.fits(b, all):
		return 0
	default:
		return 1_000_000
	}
}

func (b exactHolds) write(*rule, *big.Rat) exactCounter { panic("a hold has a name") }

func (b exactHolds) used(*rule) *big.Rat { return rat(uint64(len(b.ends))) }
func (b exactHolds) empty() bool         { return len(b.ends) == 0 }

// reservation is the units of a reservation, and the counter after they were charged.
type reservation struct {
	units *big.Rat
	of    exactCounter
	end   int64 // time at which the record expires
}

func reserve(r *rule, b exactCounter, units *big.Rat, now int64) reservation {
	switch b := b.(type) {
	case exactWindow:
		return reservation{units, b, b.end(r)}
	case exactSliding: // the window counts until the end of the next window
		return reservation{units, b, (b.window + 2) * r.period}
	}
	return reservation{units, b, now + max(r.limit.Unit, Hour).Duration().Microseconds()}
}

// settle returns counter b after use has replaced the reserved units: in a window, in the window of the
// reservation; in a bucket, at now. A reservation later than now, after a step back, changes nothing.
func (of reservation) settle(r *rule, b exactCounter, use *big.Rat, now int64) exactCounter {
	most := rat(1 << 52)
	if bucket, ok := of.of.(exactBucket); ok {
		if most = sum(r.size, r.drain); bucket.at > now {
			return b
		}
	}
	change := difference(within(use, most), of.units)
	switch b := b.(type) {
	case exactWindow:
		if b.start != of.of.(exactWindow).start {
			return b
		}
	case exactSliding:
		window := of.of.(exactSliding).window
		if window == b.window {
			break
		}
		if window > b.window {
			return b
		}
		before := within(sum(b.of(window), change), most)
		return exactSliding{b.now, b.window, map[int64]*big.Rat{b.window: b.of(b.window), window: before}}
	}
	return b.write(r, change)
}

// exactLog has the times of the used units, oldest first.
type exactLog struct {
	now  int64
	uses []exactUse
}

type exactUse struct {
	at    int64
	units *big.Rat
}

// turn drops the units that are not in the period that ends at now.
func (b exactLog) turn(r *rule, now int64) exactCounter {
	gone := func(u exactUse) bool { return now-u.at >= r.period }
	return exactLog{now, slices.DeleteFunc(slices.Clone(b.uses), gone)}
}

func (b exactLog) back(r *rule, now int64) exactCounter {
	uses := slices.Clone(b.uses)
	for i := range uses {
		uses[i].at = min(uses[i].at, now)
	}
	return exactLog{now, uses}.turn(r, now) // units that have left do not come back when the clock steps back
}

// write adds units, up to twice the amount in all, or removes the newest units.
func (b exactLog) write(r *rule, change *big.Rat) exactCounter {
	uses := slices.Clone(b.uses)
	if change.Sign() > 0 {
		return exactLog{b.now, append(uses, exactUse{b.now, within(change, within(difference(sum(r.drain, r.drain), b.used(r)), change))})}
	}
	for i := len(uses) - 1; i >= 0; i-- {
		removed := within(difference(new(big.Rat), change), uses[i].units)
		uses[i].units, change = difference(uses[i].units, removed), sum(change, removed)
	}
	return exactLog{b.now, uses}
}

func (b exactLog) used(*rule) *big.Rat {
	all := new(big.Rat)
	for _, u := range b.uses {
		all = sum(all, u.units)
	}
	return all
}

func (b exactLog) empty() bool { return b.used(nil).Sign() == 0 }

func rat(n uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(n)) }

func sum(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }

func difference(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

// within returns a, but at least 0 and at most b.
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
