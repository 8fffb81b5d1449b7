package limiter

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
)

// judge decides by the wording of the specification, with exact rational numbers and by trying
// everything on a copy. It is slow, and independent of Decide. It finds retry and reset times by
// trying later times, not by a formula.
type judge struct {
	counters map[string]exactCounter // by key
	bans     map[string]int64        // end of the ban by key, even in the past
	reserved map[string]reservation  // by key of the record
}

func newJudge() *judge {
	return &judge{counters: map[string]exactCounter{}, bans: map[string]int64{}, reserved: map[string]reservation{}}
}

// exactCounter is the content of a counter after its last write. No method changes its receiver.
type exactCounter interface {
	// turn returns the counter at now.
	turn(r *rule, now int64) exactCounter
	// If the counter is later than now, because the clock stepped back, back returns the counter
	// with all its use at now. Otherwise it returns the counter itself.
	back(r *rule, now int64) exactCounter
	// used returns the exact use, in units.
	used(r *rule) *big.Rat
	// write adds units, or refunds them if they are negative.
	write(r *rule, units *big.Rat) exactCounter
	// empty reports whether nothing is used.
	empty() bool
}

// rule is a limit in the judge's terms, with times in microseconds.
type rule struct {
	limit        *Limit
	period, ban  int64
	amount, size *big.Rat // units admitted in a period, and at once
	drain        *big.Rat // units that drain from a bucket in a period
}

func newRule(l *Limit) *rule {
	seconds := map[Unit]int64{
		Second: 1, Minute: 60, Hour: 3600, Day: 86400, Week: 604800, Month: 2592000, Year: 31536000,
	}[l.Unit]
	if l.Algorithm == ByCalendar && l.Unit >= Day { // a calendar window can be this much shorter
		seconds -= map[Unit]int64{Day: 3600, Week: 3600, Month: 2*86400 + 3600}[l.Unit]
	}
	r := &rule{limit: l, period: seconds * int64(max(l.UnitMultiplier, 1)) * 1_000_000, ban: int64(l.DenyFor / time.Microsecond)}
	r.amount = rat(l.RequestsPerUnit)
	r.size, r.drain = r.amount, rat(max(l.RequestsPerUnit, 1)) // nothing fits a limit of 0, but debt drains
	if l.Burst > 0 && l.RequestsPerUnit > 0 {
		r.size = rat(l.Burst)
	}
	return r
}

// fits reports whether b has room for units.
func (r *rule) fits(b exactCounter, units *big.Rat) bool {
	return sum(b.used(r), units).Cmp(r.size) <= 0
}

// verdict is a Decision with exact numbers.
type verdict struct {
	over, charged   bool
	reserved        *big.Rat // units of the reservation that the hit settles
	used, remaining *big.Int
	reset, retry    int64 // in microseconds; a retry of -1 means never
}

func (j *judge) decide(hits []Hit, now int64) (denied bool, verdicts []verdict) {
	verdicts = make([]verdict, len(hits))
	for i := range hits {
		r, key := newRule(hits[i].Limit), string(hits[i].Key)
		if b := j.counters[key]; b != nil && !b.empty() {
			j.counters[key] = b.back(r, now)
		}
		if r.ban > 0 && j.bans[key] > now { // no ban is longer than a new ban of the limit
			j.bans[key] = min(j.bans[key], now+r.ban)
		}
	}
	trial, bans := maps.Clone(j.counters), maps.Clone(j.bans)
	banned := func(r *rule, key string) bool { return r.ban > 0 && bans[key] > now }
	settles := map[*Hit]reservation{} // known reservations
	for i := range hits {
		h := &hits[i]
		if verdicts[i].reserved = new(big.Rat); !h.Refund || h.Reservation == nil {
			continue
		}
		if of, known := j.reserved[string(h.Reservation)]; known && now < of.end {
			verdicts[i].reserved, settles[h] = of.units, of
			delete(j.reserved, string(h.Reservation))
		}
	}
	write := func(h *Hit, r *rule, b exactCounter) {
		held, named := b.(exactHolds)
		of, known := settles[h]
		switch {
		case named:
			trial[string(h.Key)] = held.hold(r, h, now)
		case known:
			trial[string(h.Key)] = of.settle(r, b, rat(h.Cost), now)
		case h.Refund && h.Reservation != nil:
			return
		default:
			trial[string(h.Key)] = b.write(r, change(h))
		}
		if bans[string(h.Key)] <= now {
			delete(bans, string(h.Key))
		}
	}
	open := func(h *Hit) (r *rule, b exactCounter) {
		r = newRule(h.Limit)
		if b = trial[string(h.Key)]; b == nil {
			b = newExactCounter[r.limit.Algorithm]()
		}
		return r, b.turn(r, now)
	}
	enforcedOver, groups := false, map[int][]bool{} // groups: whether each hit of a quota group denies
	for i := range hits {
		h := &hits[i]
		r, b := open(h)
		over := !h.Refund && (banned(r, string(h.Key)) || !r.fits(b, wish(h)))
		if b, named := b.(exactHolds); named && b.isAlready(h) {
			over = false
		}
		verdicts[i].over = over
		if _, known := settles[h]; known || h.Cost > 0 && (!over || h.Always) {
			write(h, r, b)
		}
		switch h.Limit.Mode {
		case Enforced:
			enforcedOver = enforcedOver || over
		case Quota:
			groups[groupOf(hits, i)] = append(groups[groupOf(hits, i)], over)
		case Shadow:
			if h.Group > 0 {
				groups[groupOf(hits, i)] = append(groups[groupOf(hits, i)], false)
			}
		}
	}
	room := false
	for _, over := range groups {
		room = room || !slices.Contains(over, true)
	}
	denied = enforcedOver || len(groups) > 0 && !room
	if denied {
		trial, bans = maps.Clone(j.counters), maps.Clone(j.bans)
	}
	for i := range hits {
		h := &hits[i]
		unconditional := h.Refund || h.Always && h.Cost > 0
		verdicts[i].charged = unconditional || !denied && !verdicts[i].over && h.Cost > 0
		if _, known := settles[h]; denied && (known || unconditional && h.Cost > 0) {
			r, b := open(h)
			write(h, r, b)
		}
	}
	for i := range hits {
		h := &hits[i]
		if r := newRule(h.Limit); verdicts[i].over && h.Limit.Mode == Enforced && r.ban > 0 && !banned(r, string(h.Key)) {
			bans[string(h.Key)] = now + r.ban
		}
	}
	j.counters, j.bans = trial, bans
	for i := range hits {
		if h := &hits[i]; h.Reservation != nil && !h.Refund && verdicts[i].charged {
			j.reserved[string(h.Reservation)] = reserve(newRule(h.Limit), trial[string(h.Key)], rat(h.Cost), now)
		}
		r, b := open(&hits[i])
		verdicts[i].describe(r, b, hits, i, now)
		if key := string(hits[i].Key); banned(r, key) {
			verdicts[i].ban(bans[key] - now)
		}
	}
	return denied, verdicts
}

// groupOf returns the first hit of the quota group of hits[i], which stands for the group.
func groupOf(hits []Hit, i int) int {
	if hits[i].Group == 0 {
		return i
	}
	return slices.IndexFunc(hits, func(h Hit) bool { return h.Group == hits[i].Group })
}

func (v *verdict) describe(r *rule, b exactCounter, hits []Hit, i int, now int64) {
	v.used = ceil(b.used(r))
	v.remaining = floor(difference(r.size, b.used(r)))
	if v.remaining.Sign() < 0 {
		v.remaining = new(big.Int)
	}
	if b, ok := b.(exactHolds); ok {
		if !b.empty() {
			v.reset = r.period
		}
		if v.over {
			v.retry = b.retry(r, hits, i)
		}
		return
	}
	if w, ok := b.(interface{ end(*rule) int64 }); ok {
		v.reset = w.end(r) - now // even if it is unused
	} else {
		v.reset = r.first(b, now, exactCounter.empty)
	}
	if v.over {
		v.retry = r.first(b, now, func(b exactCounter) bool { return r.admits(b, hits, i) })
	}
}

// ban sets the verdict on a counter whose ban lasts for left microseconds.
func (v *verdict) ban(left int64) {
	v.remaining, v.reset = new(big.Int), max(v.reset, left)
	if v.over && v.retry >= 0 {
		v.retry = max(v.retry, left)
	}
}

// admits reports whether b has room for all hits on the counter of hits[i].
func (r *rule) admits(b exactCounter, hits []Hit, i int) bool {
	for j := range hits {
		h := &hits[j]
		if h.Refund || !bytes.Equal(h.Key, hits[i].Key) {
			continue
		}
		if !r.fits(b, wish(h)) {
			return false
		}
		b = b.write(r, change(h))
	}
	return true
}

// first returns the time until b is good, or -1 if it never will be. Without new use, a counter
// that is good stays good, so bisection works.
func (r *rule) first(b exactCounter, now int64, good func(exactCounter) bool) int64 {
	at := func(wait int64) bool { return good(b.turn(r, now+wait)) }
	drained := new(big.Rat).SetInt64(r.period)
	if r.amount.Sign() > 0 {
		drained.Mul(drained, new(big.Rat).Quo(sum(r.size, r.amount), r.amount))
	}
	low, high := int64(0), 2*r.period+ceil(drained).Int64()+2
	if at(low) {
		return 0
	}
	if !at(high) {
		return -1
	}
	for high-low > 1 {
		if middle := (low + high) / 2; at(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// wish returns the units that must be free for h. A peek needs one unit, unless h is always
// charged.
func wish(h *Hit) *big.Rat {
	if h.Hold != nil || h.Cost == 0 && !h.Always {
		return rat(1)
	}
	return rat(h.Cost)
}

// change returns the units that h adds.
func change(h *Hit) *big.Rat {
	if h.Refund {
		return new(big.Rat).Neg(rat(h.Cost))
	}
	return rat(h.Cost)
}

// differs describes the differences between d and the verdict.
func (v verdict) differs(d Decision) string {
	var diff strings.Builder
	check := func(name string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			fmt.Fprintf(&diff, " %s %s, want %s;", name, g, w)
		}
	}
	check("over", d.Over, v.over)
	check("charged", d.Charged, v.charged)
	check("reserved", d.Reserved, floor(v.reserved))
	check("remembered", d.Remembered, false)
	check("used", d.Used, v.used)
	check("remaining", d.Remaining, v.remaining)
	check("reset", d.ResetAfter, duration(v.reset))
	check("retry", d.RetryAfter, duration(v.retry))
	return diff.String()
}
